// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// beat is the goroutine of a member.
func (m *Member) beat(ctx context.Context) {
	defer close(m.done)
	p := pauses{below: rand.N[time.Duration]}
	for {
		select {
		case <-m.clock.After(p.after(m.every())):
			_ = m.refresh(ctx) // the next heartbeat tries again
		case <-ctx.Done():
			return
		}
	}
}

// every is when the next heartbeat is due, as the last one promised.
func (m *Member) every() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Every
}

// refresh is one round. Mostly it is one message: the heartbeat and a read of
// the record. The member follows what it reads, and runs the scripts where that
// is due. If that changed what it has to say, it says it at once.
//
// A member first writes its field of the roster, then reads the record, and
// then acts. A verb reads the two in the other order. So it sees this member,
// or its compare finds that the record has changed. The same holds where a
// heartbeat finds the field missing, and after three periods without a
// heartbeat. Otherwise the published state may lag behind the member's acts by
// one step, which gates allow for.
func (m *Member) refresh(ctx context.Context) error {
	if err := m.round.take(ctx); err != nil {
		return err
	}
	defer m.round.give()
	return m.roundOnce(ctx)
}

// turn is a lock whose waiters stop waiting when their context ends: a round
// lasts for as long as the server is silent.
type turn chan struct{}

// take waits for the turn. If it is free, take gets it whatever ctx says.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }

// roundOnce is refresh for a caller that holds m.round.
func (m *Member) roundOnce(ctx context.Context) error {
	m.said = saying{}
	began := m.clock.Moment() // before the request, so that what is read is not older
	m.mu.Lock()
	enters := m.overdue()
	if m.clock.Since(m.heard) > m.state.Renews {
		m.lives++
		m.lapsed = m.state.Phase != NoPhase
	}
	m.mu.Unlock()
	ask := func() error { return m.exchange(ctx, began) }
	if enters {
		ask = func() error { return m.enter(ctx) }
	}
	if err := ask(); err != nil {
		return err
	}
	// The trials below may wait long on connections of their own. Leases are
	// renewed meanwhile. If the member has just taken up a phase, the roster
	// gets that first: an attempt of a member that was silent waits for it.
	if s := m.State(); s.saying() == m.said {
		m.answered(began)
	}
	m.tryProbe(ctx)
	m.trySight(ctx)
	if s := m.State(); s.saying() != m.said {
		if _, _, err := m.say(ctx, s, onlyIfThere); err != nil {
			return err
		}
	}
	m.answered(began)
	m.fold(ctx)
	return nil
}

// answered notes a round in which the server answered the heartbeat and the
// reading of the record, and knows what the member took up from it.
func (m *Member) answered(began clocks.Moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = began
}

// enter writes the field, whether or not it is there, and then reads the
// record.
func (m *Member) enter(ctx context.Context) error {
	s := m.State()
	if _, _, err := m.say(ctx, s, anew); err != nil {
		return err
	}
	text, err := record.TextOf(m.mux.Do(ctx, "GET", record.Key(m.cfg.Namespace)))
	if err != nil {
		return m.unread(err)
	}
	return m.takeUp(ctx, s, text)
}

// exchange sends the heartbeat and reads the record, in one message. A member
// that may read and not write still follows the record.
func (m *Member) exchange(ctx context.Context, now clocks.Moment) error {
	lived, s := record.LivedKey(m.cfg.Namespace), m.State()
	_, replies, unsaid := m.say(ctx, s, onlyIfThere,
		wire.Cmd("GET", record.Key(m.cfg.Namespace)),
		wire.Cmd("HINCRBY", lived, record.LivedField, m.pace.owes(now.Elapsed)),
		wire.Cmd("PEXPIRE", lived, livedFor.Milliseconds()),
	)
	if errors.Is(unsaid, errNotThere) {
		return m.enter(ctx)
	}
	if replies == nil {
		return unsaid
	}
	text, err := record.TextOf(replies[0].Value, replies[0].Err)
	if err != nil {
		return m.unread(err)
	}
	if sum, err := redis.Int64(replies[1].Value, replies[1].Err); err == nil {
		m.pace.told(now.Elapsed, sum)
	}
	if unsaid != nil {
		m.take(text)
		return unsaid
	}
	return m.takeUp(ctx, s, text)
}

// takeUp raises the record's greatest TTL and period where s or the next
// heartbeat says more, and then acts by the record.
func (m *Member) takeUp(ctx context.Context, s MemberState, text string) error {
	text, err := m.raise(ctx, s, text)
	if err != nil {
		return err
	}
	m.take(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = s.TTL
	return nil
}

// raise writes the greatest lease and the greatest period into the record, for
// the case that the roster is lost. It writes by compare, as a step does, and
// returns the record that is stored.
func (m *Member) raise(ctx context.Context, s MemberState, text string) (string, error) {
	for {
		found, err := ParseRecord(text)
		every := max(found.Every, s.Every, m.pace.next)
		if err != nil || found.TTL >= s.TTL && found.Every >= every {
			return text, nil
		}
		found.TTL, found.Every = max(found.TTL, s.TTL), every
		done, err := redis.Int(m.mux.Eval(ctx, record.Step, record.Key(m.cfg.Namespace), text,
			found.String()))
		if err != nil {
			return "", m.refused("write the longest lease into", record.Key(m.cfg.Namespace), err)
		}
		if done == 1 {
			return found.String(), nil
		}
		if text, err = record.TextOf(m.mux.Do(ctx, "GET", record.Key(m.cfg.Namespace))); err != nil {
			return "", m.unread(err)
		}
	}
}

// take acts by the record that was read; an empty text is none.
func (m *Member) take(text string) {
	found, err := ParseRecord(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case text == "":
		// Without a record a member keeps the phase that it has.
		m.why = m.noRecord()
	case err != nil:
		m.why = fmt.Errorf("the record %s cannot be read: %w", record.Key(m.cfg.Namespace), err)
	case found.Dialect != m.cfg.Dialect && m.state.Phase == NoPhase:
		m.why = fmt.Errorf("namespace %q is recorded for the dialect %s, and this program writes %s: configure it for %s, or give its keys a namespace of their own",
			m.cfg.Namespace, found.Dialect, m.cfg.Dialect, found.Dialect)
	case found.Epoch < m.state.Epoch:
		// An older record changes nothing.
		m.why = fmt.Errorf(
			"the record %s is of epoch %d, and the member has seen epoch %d: an old record was restored",
			record.Key(m.cfg.Namespace), found.Epoch, m.state.Epoch)
	case m.apart(found) != nil:
		m.state.Phase, m.why = NoPhase, m.apart(found)
	default:
		m.state.Epoch, m.state.Phase = found.Epoch, found.Phase
		m.lapsed, m.why = false, nil
		m.seen = dialect.Seen{Behind: found.SawBehind, Ahead: found.SawAhead}
	}
}

// tryProbe runs the bridge's scripts once for each epoch, and again while they
// fail.
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

// longestProbe is the greatest length of a probe's error, in bytes, so that it
// fits a table.
const longestProbe = 300

func shortText(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > longestProbe {
		s = strings.ToValidUTF8(s[:longestProbe], "") + "…"
	}
	return s
}

// saying is what a member says again as soon as it changed. All else waits for
// the next heartbeat.
type saying struct {
	epoch int64
	phase Phase
	probe string
	sight string

	behind, ahead string // as on the wire
}

func (s MemberState) saying() saying {
	return saying{s.Epoch, s.Phase, s.Probe, s.Sight, boundText(s.Behind), boundText(s.Ahead)}
}

// anew makes say write the field whether or not it is there, and begin a roster
// where there is none. onlyIfThere makes it fail with errNotThere where the
// field is missing.
const (
	onlyIfThere = false
	anew        = true
)

var errNotThere = errors.New("the roster has no such member")

// say writes the heartbeat, and sends other commands with it. It returns their
// replies even where the heartbeat was refused. The heartbeat promises when the
// next one comes. While it is unknown which of two promises the server has, the
// member keeps the sooner one. Now is the server's time of the heartbeat.
func (m *Member) say(ctx context.Context, s MemberState, create bool, with ...wire.Command) (now time.Time,
	replies []wire.Reply, err error) {
	sec, usec, nonce := any(""), any(""), ""
	if m.old {
		seconds, micros, err := wire.Clock(m.mux.Do(ctx, "TIME"))
		if err != nil {
			return now, nil, m.refused("ask for the time of", "the server", err)
		}
		sec, usec = seconds, micros
	}
	if create {
		nonce = record.NewID()
	}
	s.Every = m.pace.next
	s.Renews = m.renewsFor(s.Every)
	m.promise(min(s.Every, m.every()))
	roster := record.RosterKey(m.cfg.Namespace)
	beat := record.Beat.Cmd(roster, m.id, s.head(), sec, usec, nonce)
	replies = m.mux.Batch(ctx, append([]wire.Command{beat}, with...))
	if err := replies[0].Err; wire.RefusesTime(err) && !m.old {
		m.old = true
		return m.say(ctx, s, create, with...)
	} else if err != nil {
		return now, replies[1:], m.refused("write the heartbeat in", roster, err)
	}
	at, err := redis.Int64s(replies[0].Value, nil)
	if err != nil || len(at) != 2 {
		return now, replies[1:], errNotThere
	}
	now = time.Unix(at[0], at[1]*1000).UTC()
	m.promise(s.Every)
	m.said = s.saying()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Since.IsZero() {
		m.state.Since = now
	}
	return now, replies[1:], nil
}

func (m *Member) promise(every time.Duration) {
	m.mu.Lock()
	m.state.Every = every
	m.state.Renews = m.renewsFor(every)
	m.mu.Unlock()
}

func (m *Member) unread(err error) error {
	return m.refused("read the record", record.Key(m.cfg.Namespace), err)
}

// refused says what was tried, and which rights are missing.
func (m *Member) refused(what, key string, err error) error {
	if wire.IsNoPerm(err) {
		return fmt.Errorf("could not %s %s: the server's user needs GET, SET, DEL, PEXPIRE, HGET, HSET, HSETNX, HEXISTS, HDEL, HSCAN, HINCRBY, TIME, EVAL and EVALSHA on the keys gsl:* and {gsl:*, and what the locks need on theirs: %w", what, key, err)
	}
	return fmt.Errorf("could not %s %s: %w", what, key, wire.Judged(err))
}
