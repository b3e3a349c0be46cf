package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// The pace of a burst's own watch on what it costs.
const (
	pingEvery  = 20 * time.Millisecond
	pingsOff   = 15 // before a burst: the measure of the server at rest
	eventBatch = 256
)

// endurance says what ends a burst before its time.
type endurance struct {
	every time.Duration // between two pings
	pings int           // how many round trips in a row the server is judged by
	lag   time.Duration // how old the newest line may be: more is a buffer that grows
	late  int           // at how many pings in a row it has to be
	mute  int           // how many pings in a row may fail
	still time.Duration // how long no line may come; pings are lines too
}

// A sample can be taken at any other time, so it ends at the first sign that it
// is a burden. A burst that is to stay on proves a window, and one slow moment
// would cost all of it: only a server that is slow for seconds ends it.
var (
	ofSample = endurance{every: pingEvery, pings: 9, lag: 500 * time.Millisecond, late: 1, mute: 1, still: 3 * time.Second}
	ofWindow = endurance{every: 10 * pingEvery, pings: 25, lag: 10 * time.Second, late: 10, mute: 3, still: sightLost}
)

// endures is how much a burst bears.
func (m *monitor) endures() endurance {
	if m.stays {
		return ofWindow
	}
	return ofSample
}

// monitor runs bursts of MONITOR until ctx ends or the server refuses.
type monitor struct {
	w      *watcher
	filter *filter
	sights *sightings
	pings  *wire.Mux // a connection of its own, so that latency is measured beside the burst
	stays  bool      // it is to stay on, for a window
	burst  time.Duration
	every  time.Duration
	off    time.Time // until when a hole was announced
	drops  int       // in a row
	opsOff float64   // commands a second without it, as last measured
	cost   MonitorCost
	rtts   [2][]time.Duration // without, with
}

func (w *watcher) monitor(ctx context.Context) {
	cfg := w.cfg.Monitor
	m := &monitor{
		w: w, filter: newFilter(w.cfg, w.found), sights: newSightings(w.elapsed), burst: cfg.Burst, every: cfg.Every, stays: cfg.stays(),
	}
	m.filter.sights = m.sights
	var err error
	if m.pings, err = wire.New(w.pool, wire.Options{Timeout: w.cfg.Timeout, Setup: setup}); err != nil {
		return
	}
	defer m.pings.Close()
	for ctx.Err() == nil {
		begun := w.elapsed()
		reason, why, err := m.once(ctx)
		m.publish()
		if ctx.Err() != nil {
			return
		}
		if err != nil && (wire.IsNoPerm(err) || wire.IsUnknownCommand(err)) {
			w.gone(census.SourceMonitor, refused(err, "MONITOR", "failed attempts, names of writers and upper bounds of clocks are not seen; give the user +monitor, or go on with polls"))
			return
		}
		m.settle(reason)
		if !m.wait(ctx, m.pause(reason, w.elapsed()-begun), reason, why) {
			return
		}
	}
}

// settle makes the next bursts rarer and shorter after one that was too much for
// the server, and takes that back step by step after each one that was not. One
// that is to stay on would prove nothing if it were shorter.
func (m *monitor) settle(reason census.HoleReason) {
	cfg := m.w.cfg.Monitor
	switch {
	case reason == census.HoleSlow:
		m.cost.Throttled = true
		if !m.stays {
			m.burst = max(m.burst/2, 200*time.Millisecond)
			m.every = min(max(m.every, time.Second)*2, 10*time.Minute)
		}
	case reason == census.HoleBudget:
		m.burst, m.every = min(m.burst*2, cfg.Burst), max(m.every/2, cfg.Every)
	}
}

// pause is how long to wait before the next burst, after one that lasted.
func (m *monitor) pause(reason census.HoleReason, lasted time.Duration) time.Duration {
	if reason != census.HoleAbsent && !(m.stays && reason == census.HoleSlow) {
		m.drops = 0
		return max(m.every-lasted, 0).Truncate(time.Microsecond)
	}
	// Dropped, by a server that sheds load or a network, or stopped for a slow
	// moment: sooner than the next burst, and ever later.
	if lasted >= m.every {
		m.drops = 0
	}
	m.drops++
	return min(m.every, time.Second<<min(m.drops-1, 10))
}

// wait announces the time without MONITOR and lets it pass. A watch that keeps it on has next to none.
func (m *monitor) wait(ctx context.Context, pause time.Duration, reason census.HoleReason, why string) bool {
	at := m.w.serverNow()
	if at.IsZero() {
		return m.w.rest(ctx, pause)
	}
	m.off = at.Add(pause)
	m.w.send(reading.GapOf(census.SourceMonitor, at, pause, reason, why))
	return pause == 0 || m.w.rest(ctx, pause)
}

// once is one burst. It returns why it ended and, where it could not be, the error.
func (m *monitor) once(ctx context.Context) (census.HoleReason, string, error) {
	if err := m.rest(ctx); err != nil {
		return census.HoleAbsent, err.Error(), err
	}
	c, err := m.dial(ctx)
	if err != nil {
		return census.HoleAbsent, err.Error(), err
	}
	b := &burst{m: m, conn: c}
	// MONITOR is on: its server has answered. What was executed before this
	// reading may not have been seen.
	_, at, err := m.ping(ctx)
	if err != nil {
		return census.HoleAbsent, err.Error(), errors.Join(err, c.Close())
	}
	if at.After(m.off) {
		// Later than announced: what happened since then was not seen either.
		from := m.off
		if from.IsZero() {
			from = at
		}
		m.w.send(reading.GapOf(census.SourceMonitor, from, at.Sub(from), census.HoleBudget, "between bursts"))
	}
	m.filter.forget()
	m.sights.begin()
	var marking sync.WaitGroup
	var stop context.CancelFunc
	b.ctx, stop = context.WithCancel(ctx)
	marking.Go(func() { m.mark(b.ctx) })
	reason, why := b.run(m.opsOff)
	stop()
	marking.Wait()
	return reason, why, nil
}

// dial opens the connection that MONITOR takes over. It ends with the burst, and with us: the server
// keeps nothing of it.
func (m *monitor) dial(ctx context.Context) (redis.Conn, error) {
	c, err := dialed(ctx, m.w.pool)
	if err != nil {
		return nil, err
	}
	if err := setup(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, err := redis.DoWithTimeout(c, m.w.cfg.Timeout, "MONITOR"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// rest measures the server without MONITOR: round trips and commands a second.
// One that is to stay on does so once, since it sees nothing meanwhile.
func (m *monitor) rest(ctx context.Context) error {
	if m.stays && len(m.rtts[0]) >= pingsOff {
		return nil
	}
	before, from := m.ops(ctx)
	for range pingsOff {
		rtt, _, err := m.ping(ctx)
		if err != nil {
			return err
		}
		m.rtts[0] = append(reading.Bounded(m.rtts[0], 1024), rtt)
		if !m.w.rest(ctx, pingEvery) {
			return context.Cause(ctx)
		}
	}
	after, until := m.ops(ctx)
	m.opsOff = rate(before, after, until-from)
	return nil
}

func rate(before, after int64, span time.Duration) float64 {
	if before == 0 || after < before || span <= 0 {
		return 0
	}
	return float64(after-before) / span.Seconds()
}

// ops is how many commands the server has executed, 0 where it does not say.
func (m *monitor) ops(ctx context.Context) (n int64, at time.Duration) {
	text, err := redis.String(m.pings.Do(ctx, "INFO", "stats"))
	if err != nil {
		return 0, m.w.elapsed()
	}
	n, _ = fieldIn(text, "total_commands_processed")
	return n, m.w.elapsed()
}

// ping asks for TIME: a round trip, and the server's clock for comparison with the newest line's. Round
// trips are of the network, so real time counts them.
func (m *monitor) ping(ctx context.Context) (rtt time.Duration, at time.Time, err error) {
	sent := m.w.elapsed()
	at, err = timeOf(m.pings.Do(ctx, "TIME"))
	received := m.w.elapsed()
	return received - sent, at, err
}

// fieldIn reads "NAME:N" out of INFO.
func fieldIn(text, name string) (n int64, ok bool) {
	_, line, ok := strings.Cut(text, name+":")
	if !ok {
		return 0, false
	}
	line, _, _ = strings.Cut(line, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return n, err == nil
}

func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}

// burst is one MONITOR connection: a goroutine reads, run watches the clock and the cost.
type burst struct {
	m      *monitor
	conn   redis.Conn
	ctx    context.Context
	newest atomic.Int64 // micros of the newest line
	bytes  atomic.Int64
	done   chan struct{} // closed when the reader has returned
	err    error         // why the reader ended; set before done closes
	once   sync.Once
}

// end closes the connection, which stops the reader.
func (b *burst) end() { b.once.Do(func() { _ = b.conn.Close() }) }

func (b *burst) run(opsOff float64) (census.HoleReason, string) {
	b.done = make(chan struct{})
	m := b.m
	began := m.w.elapsed()
	before, from := m.ops(b.ctx)
	go b.read()
	reason, why := b.watch(began)
	after, until := m.ops(context.WithoutCancel(b.ctx)) // also where the watch has ended
	b.end()
	<-b.done
	c := &m.cost
	c.Bursts++
	c.Time += m.w.elapsed() - began
	c.Bytes += b.bytes.Load()
	c.Lines, c.Unread = m.filter.lines, m.filter.unread
	if on := rate(before, after, until-from); opsOff > 0 && on > 0 {
		// The mean over bursts.
		n := float64(c.Bursts)
		c.OpsOff, c.OpsOn = c.OpsOff+(opsOff-c.OpsOff)/n, c.OpsOn+(on-c.OpsOn)/n
	}
	if reason != census.HoleBudget {
		c.Stopped = append(reading.Bounded(c.Stopped, mostStops), why)
	}
	return reason, why
}

// watch pings until the burst has to end, and says why. One slow answer is a
// hiccup; the median of several in a row is the server.
func (b *burst) watch(began time.Duration) (census.HoleReason, string) {
	m := b.m
	v := vigil{b: b, bears: m.endures(), limit: max(m.w.cfg.Monitor.Least, time.Duration(m.w.cfg.Monitor.Slower*float64(median(m.rtts[0]))))}
	for {
		rtt, at, err := m.ping(b.ctx)
		if b.ctx.Err() != nil {
			return census.HoleBudget, "the watch ended"
		}
		if reason, why := v.after(rtt, at, err); why != "" {
			return reason, why
		}
		switch {
		case !m.stays && b.bytes.Load() >= m.w.cfg.Monitor.Bytes:
			return census.HoleBudget, fmt.Sprintf("%d bytes were read", m.w.cfg.Monitor.Bytes)
		case !m.stays && m.w.elapsed()-began >= m.burst:
			return census.HoleBudget, "between bursts"
		case m.sights.lost() > sightLost:
			return census.HoleAbsent, fmt.Sprintf("no marker came back for %v: another server answers than the one that MONITOR watches", sightLost)
		}
		select {
		case <-b.done:
			return census.HoleAbsent, "the server ended the connection: " + fmt.Sprint(b.err)
		case <-b.ctx.Done():
			return census.HoleBudget, "the watch ended"
		case <-m.w.cfg.Clock.After(v.bears.every):
		}
	}
}

// vigil judges one round trip of a burst after another.
type vigil struct {
	b          *burst
	bears      endurance
	limit      time.Duration
	last       []time.Duration
	late, mute int // in a row
}

// after takes the next one. It says why the burst has to end, and nothing where
// it goes on.
func (v *vigil) after(rtt time.Duration, at time.Time, err error) (census.HoleReason, string) {
	m := v.b.m
	if err != nil {
		if v.mute++; v.mute < v.bears.mute {
			return "", ""
		}
		return census.HoleSlow, "stopped: the server did not answer beside MONITOR: " + err.Error()
	}
	v.mute = 0
	v.last = append(reading.Bounded(v.last, v.bears.pings), rtt)
	m.rtts[1] = append(reading.Bounded(m.rtts[1], 1024), rtt)
	lag := time.Duration(0)
	if newest := v.b.newest.Load(); newest != 0 {
		lag = time.Duration(at.UnixMicro()-newest) * time.Microsecond
	}
	if v.late++; lag <= v.bears.lag {
		v.late = 0
	}
	if len(v.last) > v.bears.pings/2 && median(v.last) > v.limit {
		return census.HoleSlow, fmt.Sprintf("stopped: a round trip took %v, and %v without MONITOR", median(v.last).Round(10*time.Microsecond), median(m.rtts[0]).Round(10*time.Microsecond))
	}
	if v.late >= v.bears.late {
		return census.HoleSlow, fmt.Sprintf("stopped: its lines came %v late, a buffer grows", lag)
	}
	return "", ""
}

// read takes lines until the connection ends. Our own pings are lines too, so silence is an end.
func (b *burst) read() {
	defer close(b.done)
	var out []offset.Observed
	var sent int64 // micros of the line at which events were handed over last
	flush := func() {
		b.m.w.send(out...)
		out, sent = nil, b.m.filter.newest
	}
	defer func() {
		out = b.m.filter.tellOther(out)
		flush()
	}()
	for {
		text, err := redis.String(redis.ReceiveWithTimeout(b.conn, max(b.m.endures().still, b.m.w.cfg.Timeout+time.Second)))
		if err != nil {
			b.err = err
			return
		}
		b.bytes.Add(int64(len(text)) + 3)
		out = b.m.filter.line(text, out)
		b.newest.Store(b.m.filter.newest)
		// Our own pings are lines too, so what waits here waits for the next of them at most.
		if len(out) >= eventBatch || len(out) > 0 && b.m.filter.newest-sent >= pingEvery.Microseconds() {
			flush()
		}
	}
}

// publish puts the price so far where the result finds it.
func (m *monitor) publish() {
	c := m.cost
	c.PingOff, c.PingOn = median(m.rtts[0]), median(m.rtts[1])
	c.Stopped = slices.Clone(c.Stopped)
	m.w.mu.Lock()
	m.w.cost.Monitor = &c
	m.w.mu.Unlock()
}

// mostStops bounds the reasons that are kept for bursts that ended before their
// time.
const mostStops = 256
