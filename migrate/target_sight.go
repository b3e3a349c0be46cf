// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// sight proves that members who name one target have one target. The member
// that joined first holds a key of the target, named by its id. Each other one
// tries that key through its own connection to the target: if it is refused, it
// sees what the first member holds. Two targets under one name refuse nothing.
//
// Members that try take turns by a key on the old server. Otherwise one of them
// could be refused by another's try in the same wrong target.
type sight struct {
	m      *Member
	bridge *bridgeEngine
	target backend.Backend
	held   backend.Grant // the first member's; guarded by m.round
}

// errSight is a contradiction that no wait resolves.
var errSight = errors.New("each target needs a name of its own, and keys of its own")

const (
	sightTTL  = 5 * time.Second  // of a try
	sightTurn = 15 * time.Second // of a turn, which is longer than a try and its reply
)

func (m *Member) composes(b *bridgeEngine, target backend.Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sight = &sight{m: m, bridge: b, target: target}
}

// trySight publishes what the member sees of the target. What it saw once stays
// true, although the member that held the key may leave.
func (m *Member) trySight(ctx context.Context) {
	m.mu.Lock()
	s, saw := m.sight, m.state.Sight
	m.mu.Unlock()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.mux.Timeout()) // a target that is away delays no heartbeat
	defer cancel()
	saw, err := s.look(ctx, saw)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Sight = saw
	if m.blind = err; errors.Is(err, errSight) {
		m.state.Probe = shortText(err.Error())
	}
}

// proved says why a composed lock is not taken: in clean, where the target is
// all that it has, the member must have seen that the others have the same one.
// A contradiction counts in every phase.
func (m *Member) proved(ctx context.Context, p Phase) error {
	doubt := func() (why error, doubts bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.blind, errors.Is(m.blind, errSight) || p == Clean && m.sight != nil && m.state.Sight == ""
	}
	if _, doubts := doubt(); !doubts {
		return nil
	}
	late := m.refresh(ctx)
	why, doubts := doubt()
	if !doubts {
		return nil
	}
	return &unheardError{0, fmt.Sprintf(
		"takes no lock by the target %q before it has seen there what another member holds",
		m.cfg.Target), errors.Join(why, late)}
}

// look returns the id of the member whose key the target refuses to this one,
// or saw where that is not known yet. The caller holds m.round.
func (s *sight) look(ctx context.Context, saw string) (string, error) {
	first, err := s.first(ctx, saw)
	if err != nil || first == "" || first == saw && first != s.m.id {
		return saw, err
	}
	key := s.m.cfg.Namespace + "gsl-target:" + first
	if first == s.m.id {
		if err := s.hold(ctx, key); err != nil {
			return saw, err
		}
		return first, nil
	}
	turn := record.TurnKey(s.m.cfg.Namespace)
	took, err := redis.String(s.m.mux.Do(ctx, "SET", turn, s.m.id, "NX", "PX", sightTurn.Milliseconds()))
	if took == "" {
		return saw, err // another member's turn, which is no error
	}
	g, err := s.target.Try(ctx, key, sightTTL)
	given := err == nil
	if given {
		err = g.Release(ctx)
	}
	if err != nil && !errors.Is(err, backend.ErrHeld) {
		return saw, fmt.Errorf("the target %q: %w", s.m.cfg.Target, err) // the turn ends after the try
	}
	_, _ = s.m.mux.Eval(ctx, record.Drop, turn, s.m.id)
	if given {
		return saw, fmt.Errorf("the target %q gives this program a key that member %s holds there: %w", s.m.cfg.Target,
			first, errSight)
	}
	if err := s.apart(ctx, key); err != nil {
		return saw, err
	}
	return first, nil
}

// hold holds the member's own key of the target.
func (s *sight) hold(ctx context.Context, key string) error {
	ttl := max(record.BeatsMissed*s.m.every(), sightTurn)
	var err error
	if s.held != nil {
		if _, err = s.held.Extend(ctx, ttl); errors.Is(err, backend.ErrLost) {
			s.held = nil
		}
	}
	if s.held == nil {
		s.held, err = s.target.Try(ctx, key, ttl)
	}
	if err != nil {
		return fmt.Errorf("the target %q: %w", s.m.cfg.Target, err)
	}
	return s.apart(ctx, key)
}

// unsee releases the member's own key of the target, where the target still
// answers. Otherwise the key ends by its TTL.
func (m *Member) unsee(ctx context.Context) {
	if m.round.take(ctx) != nil {
		return // the round under way ends with the heartbeats; the key ends by its TTL
	}
	defer m.round.give()
	if m.sight == nil || m.sight.held == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.mux.Timeout())
	defer cancel()
	_ = m.sight.held.Release(ctx)
}

// apart refuses a target whose key is one of the bridge's on the same server:
// while the target holds it, the bridge finds it taken.
func (s *sight) apart(ctx context.Context, key string) error {
	o, err := s.bridge.Observe(ctx, key)
	if err == nil && (o.Exists || o.MarkExists) {
		err = fmt.Errorf("the target %q stores its locks on the same server, in the old clients' keys or in those beside them: %w",
			s.m.cfg.Target, errSight)
	}
	return err
}

// first is the member whose key is tried: of those that beat, one that holds a
// key already, or else one that has seen the target. Where there is none, it is
// the member that joined first of all that may live. It is empty while that one
// has yet to hold its key. The member saw is asked alone where it still beats.
func (s *sight) first(ctx context.Context, saw string) (string, error) {
	now, err := wire.Time(s.m.mux.Do(ctx, "TIME"))
	if err != nil {
		return "", err
	}
	if saw != "" && saw != s.m.id {
		text, err := record.TextOf(s.m.mux.Do(ctx, "HGET", record.RosterKey(s.m.cfg.Namespace), saw))
		if err != nil {
			return "", err
		}
		if o, err := ParseMember(text); err == nil && sightRank(o, now) == 0 {
			return saw, nil
		}
	}
	all, err := s.m.roster(ctx)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all,
		func(o MemberState) bool { return o.Target != s.m.cfg.Target || o.outlived(now) })
	slices.SortFunc(all, func(a, b MemberState) int {
		return cmp.Or(cmp.Compare(sightRank(a, now), sightRank(b, now)), since(a).Compare(since(b)),
			cmp.Compare(a.ID, b.ID))
	})
	if len(all) > 0 && (all[0].ID == s.m.id || sightRank(all[0], now) == 0) {
		return all[0].ID, nil
	}
	return "", nil
}

// sightRank is 0 for a member that beats and holds its key, 1 for one that
// beats and has seen another's, and 2 for any other.
func sightRank(o MemberState, now time.Time) int {
	switch {
	case o.Sight == "" || now.Sub(o.Seen) > record.BeatsMissed*o.Every:
		return 2
	case o.Sight != o.ID:
		return 1
	}
	return 0
}

// roster reads the fields of all members, without those that it cannot read.
func (m *Member) roster(ctx context.Context) (all []MemberState, err error) {
	for cursor := "0"; ; {
		reply, err := redis.Values(m.mux.Do(ctx, "HSCAN", record.RosterKey(m.cfg.Namespace), cursor,
			"COUNT", 500))
		if err != nil {
			return nil, err
		}
		var fields []string
		if _, err := redis.Scan(reply, &cursor, &fields); err != nil {
			return nil, err
		}
		for i := 1; i < len(fields); i += 2 {
			if s, err := ParseMember(fields[i]); err == nil {
				all = append(all, s)
			}
		}
		if cursor == "0" {
			return all, nil
		}
	}
}

// since is when a member joined. Its first heartbeat does not say it yet.
func since(o MemberState) time.Time {
	if o.Since.IsZero() {
		return o.Seen
	}
	return o.Since
}
