// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// How often a burst measures what it costs the server.
const (
	pingEvery  = 20 * time.Millisecond
	pingsOff   = 15 // round trips measured before a burst, without MONITOR
	eventBatch = 256
)

// endurance says which signs of a burden end a burst early.
type endurance struct {
	every time.Duration // from one ping to the next
	pings int           // how many of the last round trips the median is taken of
	lag   time.Duration // greatest age of the newest line; beyond it a buffer on the server grows
	late  int           // how many pings in a row must find the lines too old
	mute  int           // how many failed pings in a row end the burst
	still time.Duration // longest silence; pings make lines too
}

// A sample can be taken at any other time, so it ends at the first sign of a
// burden. A burst that stays on proves a window, and one slow moment would
// invalidate all of it: only a server that is slow for seconds ends it.
var (
	ofSample = endurance{every: pingEvery, pings: 9, lag: 500 * time.Millisecond, late: 1, mute: 1,
		still: 3 * time.Second}
	ofWindow = endurance{every: 10 * pingEvery, pings: 25,
		lag: 10 * time.Second, late: 10, mute: 3, still: sightLost}
)

// endures returns how much a burst of this monitor endures.
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
	pings  *wire.Mux // on another connection, to measure latency during the burst
	stays  bool      // MONITOR stays on, to prove a window
	burst  time.Duration
	every  time.Duration
	off    time.Time // end of the hole that was last announced
	drops  int       // connections lost in a row
	opsOff float64   // commands per second without MONITOR, as last measured
	cost   MonitorCost
	rtts   [2][]time.Duration // round trips without and with MONITOR
}

func (w *watcher) monitor(ctx context.Context) {
	cfg := w.cfg.Monitor
	m := &monitor{
		w: w, filter: newFilter(w.cfg, w.found),
		sights: newSightings(w.elapsed, reading.KeySpellings(w.cfg.Dialects)),
		burst:  cfg.Burst, every: cfg.Every, stays: cfg.stays(),
	}
	m.filter.sights = m.sights
	var err error
	if m.pings, err = wire.New(w.pool, wire.Options{Timeout: w.cfg.Timeout, Setup: keys.Setup}); err != nil {
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

// settle makes the next bursts shorter and rarer after one that burdened the
// server, and reverses that step by step after each one that did not. Bursts
// that stay on are never made shorter, since they would then prove nothing.
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

// pause returns how long to wait before the next burst, after one that lasted
// this long.
func (m *monitor) pause(reason census.HoleReason, lasted time.Duration) time.Duration {
	if reason != census.HoleAbsent && !(m.stays && reason == census.HoleSlow) {
		m.drops = 0
		return max(m.every-lasted, 0).Truncate(time.Microsecond)
	}
	// The connection was lost, because the server shed load or the network
	// failed, or a slow moment ended the burst. Begin again sooner than a
	// regular burst, and later after each further loss.
	if lasted >= m.every {
		m.drops = 0
	}
	m.drops++
	return min(m.every, time.Second<<min(m.drops-1, 10))
}

// wait announces the time without MONITOR as a hole and lets it pass. It
// returns false if ctx ends first.
func (m *monitor) wait(ctx context.Context, pause time.Duration, reason census.HoleReason, why string) bool {
	at := m.w.serverNow()
	if at.IsZero() {
		return m.w.rest(ctx, pause)
	}
	m.off = at.Add(pause)
	m.w.send(reading.GapOf(census.SourceMonitor, at, pause, reason, why))
	return pause == 0 || m.w.rest(ctx, pause)
}

// once runs one burst. It returns why the burst ended, as a reason and in
// words, and an error if it could not begin.
func (m *monitor) once(ctx context.Context) (census.HoleReason, string, error) {
	if err := m.rest(ctx); err != nil {
		return census.HoleAbsent, err.Error(), err
	}
	c, err := m.dial(ctx)
	if err != nil {
		return census.HoleAbsent, err.Error(), err
	}
	b := &burst{m: m, conn: c}
	// The server has answered MONITOR, so MONITOR is on. A command executed
	// before this reading of TIME may have been missed.
	_, at, err := m.ping(ctx)
	if err != nil {
		return census.HoleAbsent, err.Error(), errors.Join(err, c.Close())
	}
	if at.After(m.off) {
		// The burst began later than announced: commands since then were missed
		// too.
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

// dial opens the connection that MONITOR takes over. MONITOR ends when the
// connection closes, also if this process dies: the server keeps nothing of it.
func (m *monitor) dial(ctx context.Context) (redis.Conn, error) {
	c, err := keys.Dial(ctx, m.w.pool)
	if err != nil {
		return nil, err
	}
	if err := keys.Setup(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, err := redis.DoWithTimeout(c, m.w.cfg.Timeout, "MONITOR"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// rest measures the server without MONITOR: round trips and commands per
// second. If MONITOR is to stay on, it measures only once, since nothing is
// seen meanwhile.
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

// ops returns how many commands the server has executed; 0: unknown.
func (m *monitor) ops(ctx context.Context) (n int64, at time.Duration) {
	info, _ := wire.Info(m.pings.Do(ctx, "INFO", "stats"))
	n, _ = strconv.ParseInt(info["total_commands_processed"], 10, 64)
	return n, m.w.elapsed()
}

// ping asks for TIME. It measures the round trip, and returns the server's
// clock to compare with the newest line's. The round trip is counted in this
// machine's elapsed time.
func (m *monitor) ping(ctx context.Context) (rtt time.Duration, at time.Time, err error) {
	sent := m.w.elapsed()
	at, err = wire.Time(m.pings.Do(ctx, "TIME"))
	received := m.w.elapsed()
	return received - sent, at, err
}

func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}

// burst is one connection in MONITOR mode. One goroutine reads its lines; run
// measures what it costs.
type burst struct {
	m      *monitor
	conn   redis.Conn
	ctx    context.Context
	newest atomic.Int64 // instant of the newest line, in µs
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
	after, until := m.ops(context.WithoutCancel(b.ctx)) // measured even if the watch has ended
	b.end()
	<-b.done
	c := &m.cost
	c.Bursts++
	c.Time += m.w.elapsed() - began
	c.Bytes += b.bytes.Load()
	c.Lines = m.filter.lines
	if on := rate(before, after, until-from); opsOff > 0 && on > 0 {
		// Keep the mean over all bursts.
		n := float64(c.Bursts)
		c.OpsOff, c.OpsOn = c.OpsOff+(opsOff-c.OpsOff)/n, c.OpsOn+(on-c.OpsOn)/n
	}
	if reason != census.HoleBudget {
		c.Stopped = append(reading.Bounded(c.Stopped, mostStops), why)
	}
	return reason, why
}

// watch pings until the burst has to end, and returns why. One slow answer is
// noise, so it judges the server by the median of several.
func (b *burst) watch(began time.Duration) (census.HoleReason, string) {
	m := b.m
	v := vigil{b: b, bears: m.endures(),
		limit: max(m.w.cfg.Monitor.Least, time.Duration(m.w.cfg.Monitor.Slower*float64(median(m.rtts[0]))))}
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
			return census.HoleAbsent,
				fmt.Sprintf(
					"no marker came back for %v: MONITOR watches another server than the one that answers", sightLost)
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

// vigil judges the round trips of a burst, one after the other.
type vigil struct {
	b          *burst
	bears      endurance
	limit      time.Duration
	last       []time.Duration
	late, mute int // pings in a row with old lines, and without an answer
}

// after judges the next round trip. It returns why the burst has to end, or
// empty strings if it may go on.
func (v *vigil) after(rtt time.Duration, at time.Time, err error) (census.HoleReason, string) {
	m := v.b.m
	if err != nil {
		if v.mute++; v.mute < v.bears.mute {
			return "", ""
		}
		return census.HoleSlow, "stopped: the server did not answer while MONITOR ran: " + err.Error()
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
		return census.HoleSlow, fmt.Sprintf("stopped: a round trip took %v, and %v without MONITOR",
			median(v.last).Round(10*time.Microsecond), median(m.rtts[0]).Round(10*time.Microsecond))
	}
	if v.late >= v.bears.late {
		return census.HoleSlow, fmt.Sprintf(
			"stopped: MONITOR's lines came %v late, so a buffer on the server grows", lag)
	}
	return "", ""
}

// read takes lines until the connection ends. The watch's own pings appear as
// lines too, so a long silence means that the connection is dead.
func (b *burst) read() {
	defer close(b.done)
	var out []offset.Observed
	var sent int64 // instant of the line at which events were last sent, in µs
	flush := func() {
		b.m.w.send(out...)
		out, sent = nil, b.m.filter.newest
	}
	defer func() {
		out = b.m.filter.tellOther(out)
		flush()
	}()
	for {
		text, err := redis.String(redis.ReceiveWithTimeout(b.conn,
			max(b.m.endures().still, b.m.w.cfg.Timeout+time.Second)))
		if err != nil {
			b.err = err
			return
		}
		b.bytes.Add(int64(len(text)) + 3)
		out = b.m.filter.line(text, out)
		b.newest.Store(b.m.filter.newest)
		// The pings make lines too, so an event waits here until the next ping
		// at most.
		if len(out) >= eventBatch || len(out) > 0 && b.m.filter.newest-sent >= pingEvery.Microseconds() {
			flush()
		}
	}
}

// publish stores the cost so far where results are made from.
func (m *monitor) publish() {
	c := m.cost
	c.PingOff, c.PingOn = median(m.rtts[0]), median(m.rtts[1])
	c.Stopped = slices.Clone(c.Stopped)
	m.w.mu.Lock()
	m.w.cost.Monitor = &c
	m.w.mu.Unlock()
}

// mostStops bounds the list of reasons why bursts ended early.
const mostStops = 256
