package migrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// beat is the goroutine of a member.
func (m *Member) beat(ctx context.Context) {
	defer close(m.done)
	p := pauses{below: rand.N[time.Duration]}
	for {
		select {
		case <-m.clock.After(p.after(m.every())):
			_ = m.refresh(ctx) // the next one tries again; who misses them sees it on the server
		case <-ctx.Done():
			return
		}
	}
}

// every is when the next heartbeat is due, as the last one said.
func (m *Member) every() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Every
}

// refresh is one round. Mostly it is one message, the heartbeat and the question for the record. What is found
// is taken up, the scripts are tried where that is due, and if it changed what there is to say, that is
// said at once.
//
// A phase is acted by only after the server knows this member, so that no lock of a stranger is taken: who
// has none reads first. From then on what is published may lag behind what is done by one step, which no
// gate passes.
func (m *Member) refresh(ctx context.Context) error {
	m.round.Lock()
	defer m.round.Unlock()
	m.said = saying{}
	ask := m.exchange
	if m.State().Phase == NoPhase {
		ask = m.introduce
	}
	if err := ask(ctx, m.clock.Moment()); err != nil { // of before the question: what is read is not older
		return err
	}
	m.tryProbe(ctx)
	s := m.State()
	if s.saying() == m.said {
		return nil
	}
	_, err := m.say(ctx, s)
	return err
}

// introduce reads the record and says by what it is about to act.
func (m *Member) introduce(ctx context.Context, now clocks.Moment) error {
	text, err := record.TextOf(m.mux.Do(ctx, "GET", record.Key(m.cfg.Namespace)))
	if err != nil {
		return m.unread(err)
	}
	s := m.State()
	if found, err := ParseRecord(text); err == nil && found.Dialect == s.Dialect {
		s.Epoch, s.Phase = found.Epoch, found.Phase
	}
	if _, err := m.say(ctx, s); err != nil {
		return err
	}
	m.take(text, now)
	return nil
}

// exchange beats and reads the record, in one message. Who can read and not write still follows.
func (m *Member) exchange(ctx context.Context, now clocks.Moment) error {
	lived := record.LivedKey(m.cfg.Namespace)
	replies, unsaid := m.say(ctx, m.State(),
		wire.Cmd("GET", record.Key(m.cfg.Namespace)),
		wire.Cmd("HINCRBY", lived, record.LivedField, m.pace.owes(now.Elapsed)),
		wire.Cmd("PEXPIRE", lived, livedFor.Milliseconds()),
	)
	if replies == nil {
		return unsaid
	}
	text, err := record.TextOf(replies[0].Value, replies[0].Err)
	if err != nil {
		return m.unread(err)
	}
	m.take(text, now)
	if sum, err := redis.Int64(replies[1].Value, replies[1].Err); err == nil {
		m.pace.told(now.Elapsed, sum)
	}
	return unsaid
}

// take acts upon the record that was read, which is not older than then; an
// empty text is none.
func (m *Member) take(text string, then clocks.Moment) {
	found, err := ParseRecord(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh = then
	switch {
	case text == "":
		// Nobody's record moves nobody: who has a phase keeps it.
		m.why = m.noRecord()
	case err != nil:
		m.why = fmt.Errorf("the record %s cannot be read: %w", record.Key(m.cfg.Namespace), err)
	case found.Dialect != m.cfg.Dialect && m.state.Phase == NoPhase:
		m.why = fmt.Errorf("namespace %q is recorded for the dialect %s, and this program writes %s: configure it for %s, or give its keys a namespace of their own",
			m.cfg.Namespace, found.Dialect, m.cfg.Dialect, found.Dialect)
	case found.Epoch >= m.state.Epoch:
		m.state.Epoch, m.state.Phase = found.Epoch, found.Phase
	}
}

// tryProbe runs the bridge's scripts once for each epoch, and again while they fail.
func (m *Member) tryProbe(ctx context.Context) {
	m.mu.Lock()
	probe, due := m.probe, m.probed != m.state.Epoch || m.state.Probe != record.ProbeOK
	epoch := m.state.Epoch
	m.mu.Unlock()
	if probe == nil || !due {
		return
	}
	said := record.ProbeOK
	if err := probe(ctx, record.ProbeKey(m.cfg.Namespace, m.id)); err != nil {
		said = shortText(err.Error())
	}
	m.mu.Lock()
	m.state.Probe, m.probed = said, epoch
	m.mu.Unlock()
}

// longestProbe keeps what went wrong readable in a table.
const longestProbe = 300

func shortText(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > longestProbe {
		s = strings.ToValidUTF8(s[:longestProbe], "") + "…"
	}
	return s
}

// saying is what is said anew as soon as it changed. The rest waits for the next heartbeat.
type saying struct {
	epoch int64
	phase Phase
	probe string

	behind, ahead string // as they stand on the wire
}

func (s MemberState) saying() saying {
	return saying{s.Epoch, s.Phase, s.Probe, boundText(s.Behind), boundText(s.Ahead)}
}

// say writes the heartbeat, and sends other commands with it, whose replies it returns also where the
// heartbeat was refused. It promises when the next one comes, and holds to the sooner of both promises while
// it is not known which of them stands.
func (m *Member) say(ctx context.Context, s MemberState, with ...wire.Command) ([]wire.Reply, error) {
	sec, usec := any(""), any("")
	if m.old {
		seconds, micros, err := wire.Clock(m.mux.Do(ctx, "TIME"))
		if err != nil {
			return nil, m.refused("ask for the time of", "the server", err)
		}
		sec, usec = seconds, micros
	}
	s.Every = m.pace.next
	m.promise(min(s.Every, m.every()))
	beat := record.Beat.Cmd(record.MemberKey(m.cfg.Namespace, m.id), s.head(), sec, usec)
	replies := m.mux.Batch(ctx, append([]wire.Command{beat}, with...))
	if err := replies[0].Err; wire.RefusesTime(err) && !m.old {
		m.old = true
		return m.say(ctx, s, with...)
	} else if err != nil {
		return replies[1:], m.refused("write the heartbeat", record.MemberKey(m.cfg.Namespace, m.id), err)
	}
	m.promise(s.Every)
	m.said = s.saying()
	return replies[1:], nil
}

func (m *Member) promise(every time.Duration) {
	m.mu.Lock()
	m.state.Every = every
	m.mu.Unlock()
}

func (m *Member) unread(err error) error {
	return m.refused("read the record", record.Key(m.cfg.Namespace), err)
}

// refused names what was tried, and the rights that are missing.
func (m *Member) refused(what, key string, err error) error {
	if wire.IsNoPerm(err) {
		return fmt.Errorf("could not %s %s: the server's user needs GET, SET, DEL, TIME, EVAL and EVALSHA on the keys gsl:* and on those of the locks: %w", what, key, err)
	}
	return fmt.Errorf("could not %s %s: %w", what, key, err)
}
