package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

// beat is the goroutine of a member.
func (m *Member) beat(ctx context.Context) {
	defer close(m.done)
	for {
		select {
		case <-m.clock.After(m.cfg.Every):
			_ = m.refresh(ctx) // the next one tries again; who misses them sees it on the server
		case <-ctx.Done():
			return
		}
	}
}

// refresh is one round: read the record, take up its phase, try the scripts where that is due, and say
// so. A phase is acted by only after the server knows this member, so that no lock of a stranger is
// taken; from then on what is published may lag behind what is done by one step, which no gate passes.
func (m *Member) refresh(ctx context.Context) error {
	m.round.Lock()
	defer m.round.Unlock()
	now := m.clock.moment() // of before the question: what is read is not older
	found, err := readStored(m.mux.Do(ctx, "GET", recordKey(m.cfg.Namespace)))
	if err != nil {
		return m.refused("read the record", recordKey(m.cfg.Namespace), err)
	}
	m.mu.Lock()
	first := m.state.Phase == NoPhase
	m.mu.Unlock()
	if first {
		if err := m.publish(ctx, found); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.take(found)
	m.fresh = now
	m.mu.Unlock()
	m.tryProbe(ctx)
	return m.publish(ctx, stored{})
}

// take acts upon what was read.
func (m *Member) take(found stored) {
	switch {
	case !found.exists():
		// Nobody's record moves nobody: who has a phase keeps it.
		m.why = m.noRecord()
	case found.err != nil:
		m.why = fmt.Errorf("the record %s cannot be read: %w", recordKey(m.cfg.Namespace), found.err)
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
	probe, due := m.probe, m.probed != m.state.Epoch || m.state.Probe != probeOK
	epoch := m.state.Epoch
	m.mu.Unlock()
	if probe == nil || !due {
		return
	}
	said := probeOK
	if err := probe(ctx, probeKey(m.cfg.Namespace, m.id)); err != nil {
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

// publish writes the heartbeat. With a record just read, and not yet taken up, it says what will be done.
func (m *Member) publish(ctx context.Context, coming stored) error {
	m.mu.Lock()
	s := m.snapshot()
	old := m.old
	m.mu.Unlock()
	if coming.exists() && coming.err == nil && coming.Dialect == s.Dialect {
		s.Epoch, s.Phase = coming.Epoch, coming.Phase
	}
	sec, usec := any(""), any("")
	if old {
		t, err := redis.Values(m.mux.Do(ctx, "TIME"))
		if err != nil || len(t) != 2 {
			return m.refused("ask for the time of", "the server", errors.Join(err))
		}
		sec, usec = t[0], t[1]
	}
	_, err := m.mux.Eval(ctx, beatScript, memberKey(m.cfg.Namespace, m.id), s.head(), sec, usec)
	if refusesTime(err) && !old {
		m.mu.Lock()
		m.old = true
		m.mu.Unlock()
		return m.publish(ctx, coming)
	}
	if err != nil {
		return m.refused("write the heartbeat", memberKey(m.cfg.Namespace, m.id), err)
	}
	return nil
}

// refusesTime recognises a server before 3.2, on which a script that has called TIME may not write.
func refusesTime(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "non deterministic commands")
}

// refused names what was tried, and the rights that are missing.
func (m *Member) refused(what, key string, err error) error {
	if wire.IsNoPerm(err) {
		return fmt.Errorf("could not %s %s: the server's user needs GET, SET, DEL, TIME, EVAL and EVALSHA on the keys gsl:* and on those of the locks: %w", what, key, err)
	}
	return fmt.Errorf("could not %s %s: %w", what, key, err)
}
