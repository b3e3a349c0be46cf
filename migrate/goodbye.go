// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
)

// Goodbye waits for the member's leases to end, until ctx ends, and takes the
// member out of the roster. From its call on Begin refuses. If leases are left,
// or the server does not answer, the member stays in the roster. Once its
// heartbeats are missed, it then closes every gate until the operator forgets
// it.
func (m *Member) Goodbye(ctx context.Context) error {
	m.ends()
	err := m.drained(ctx)
	m.halt()
	m.unsee(ctx)
	if err == nil {
		err = m.unregister(ctx)
	}
	return errors.Join(err, m.mux.Close())
}

// unregister deletes the member's field of the roster.
func (m *Member) unregister(ctx context.Context) error {
	if err := m.round.take(ctx); err != nil {
		return m.notSaid(err)
	}
	defer m.round.give()
	if _, err := m.mux.Do(ctx, "HDEL", record.RosterKey(m.cfg.Namespace), m.id); err != nil {
		return m.notSaid(err)
	}
	return nil
}

func (m *Member) notSaid(err error) error {
	return fmt.Errorf(
		"migrate: member %s could not leave the registry; if it stays there, name it by --forget %s: %w",
		m.id, m.id, err)
}

// GoodbyeAfter ends a member that leaves a lock to its TTL. after is the
// longest time for which the server can still keep such a lock. Until then the
// roster has the member as leaving, and every gate stays closed.
func (m *Member) GoodbyeAfter(ctx context.Context, after time.Duration) error {
	m.ends()
	m.halt()
	m.unsee(ctx)
	return errors.Join(m.leaves(ctx, after), m.mux.Close())
}

// leaves writes the member's field of the roster with the instant after which
// its last lock has ended.
func (m *Member) leaves(ctx context.Context, after time.Duration) error {
	if err := m.round.take(ctx); err != nil {
		return m.notSaid(err)
	}
	defer m.round.give()
	s := m.State() // with its leases
	now, _, err := m.say(ctx, s, anew)
	if err == nil {
		// A write that the network delays arrives within the timeout of its
		// reply.
		s.Leaving = now.Add(after + m.mux.Timeout())
		_, _, err = m.say(ctx, s, anew)
	}
	if err != nil {
		return m.notSaid(err)
	}
	return nil
}

// ends makes every later attempt fail.
func (m *Member) ends() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

// over reports whether Goodbye or GoodbyeAfter was called.
func (m *Member) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// Leave ends the heartbeats and tells the server nothing, as a killed program
// does.
func (m *Member) Leave() error {
	m.halt()
	return m.mux.Close()
}

// halt ends the heartbeats and waits for their goroutine.
func (m *Member) halt() {
	m.stop()
	<-m.done
}

// drained waits until the member has no lease, or ctx ends.
func (m *Member) drained(ctx context.Context) error {
	m.mu.Lock()
	none := m.leases.none()
	m.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("migrate: member %s still has leases (%s): release them before Goodbye: %w",
			m.id, strings.ReplaceAll(leasesText(m.State().Leases), ",", ", "), context.Cause(ctx))
	}
}

// leases counts leases and attempts by the phase in which they began.
type leases struct {
	by   map[Phase]int
	over chan struct{} // closed when none is left; nil while nobody waits for that
}

func (l *leases) begin(p Phase) {
	if l.by == nil {
		l.by = map[Phase]int{}
	}
	l.by[p]++
}

func (l *leases) end(p Phase) {
	if l.by[p]--; l.by[p] == 0 {
		delete(l.by, p)
	}
	if len(l.by) == 0 && l.over != nil {
		close(l.over)
		l.over = nil
	}
}

// count returns the numbers, which the caller owns.
func (l *leases) count() map[Phase]int {
	out := map[Phase]int{}
	maps.Copy(out, l.by)
	return out
}

// none returns a channel that is closed as soon as no lease is left.
func (l *leases) none() <-chan struct{} {
	if len(l.by) == 0 {
		over := make(chan struct{})
		close(over)
		return over
	}
	if l.over == nil {
		l.over = make(chan struct{})
	}
	return l.over
}
