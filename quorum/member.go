// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Member is one server of a quorum, as a program opened it: a *modern.Backend
// whose Config has a Name.
type Member interface {
	backend.Store

	// String names the server, in errors and in the records of the servers. All
	// programs use the same names. No two members have the same.
	String() string
}

// voter is the contract of a Member. If it also implements
// [backend.BatchExtender], [backend.Waker], [backend.Advisor],
// [backend.Inspector] or io.Closer, the quorum uses that. Each call returns
// within a few seconds, whatever the server does.
type voter interface {
	backend.Backend

	// Admit lets check ask who answers on each new connection, before anything
	// else is sent over it. After an error the connection is not used.
	Admit(check func(redis.Conn) error) error

	// Do sends a command.
	Do(ctx context.Context, name string, args ...any) (any, error)

	// TryAs is [backend.Backend.Try] with a token of the caller's, which
	// becomes the key's whole value.
	TryAs(ctx context.Context, key, token string, ttl time.Duration) (backend.Grant, error)

	// Raise makes the member's next fencing number greater than number, if the
	// key still carries the token of g, else the error wraps [backend.ErrLost].
	Raise(ctx context.Context, g backend.Grant, number int64) error
}

// member is a voter and what is known of it.
type member struct {
	voter
	name    string
	index   int
	batch   backend.BatchExtender
	waker   backend.Waker
	looks   backend.Inspector
	advisor backend.Advisor
	mending atomic.Bool // a goroutine takes missing votes again

	mu      sync.Mutex
	seat    seat
	trouble error // why it did not answer the last call
}

func newMember(index int, m Member) (*member, error) {
	contract := m.Contract()
	v, ok := contract.(voter)
	if !ok {
		return nil, fmt.Errorf("quorum: the server %s cannot vote: its backend is a %T; use package modern", m,
			contract)
	}
	own := &member{voter: v, name: m.String(), index: index}
	own.batch, _ = contract.(backend.BatchExtender)
	own.waker, _ = contract.(backend.Waker)
	own.looks, _ = contract.(backend.Inspector)
	own.advisor, _ = contract.(backend.Advisor)
	return own, nil
}

func (m *member) String() string { return m.name }

func (m *member) sitting() seat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seat
}

// sit records what the member said, and returns why it does not vote. What it
// said after a later question stands. So does what it said before a question
// without an answer, except that it votes: a refusal lasts until it answers. A
// question whose caller stopped waiting says nothing.
func (m *member) sit(now *seat) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.seat.asked && now.at < m.seat.at:
	case now.asked:
		m.seat = *now
	case left(now.why):
	case ofAnother(m.seat.why) != nil:
		m.seat.again = now.again
	default:
		m.seat.why, m.seat.again = now.why, now.again
	}
	return now.why
}

// answered records whether the member answered a call.
func (m *member) answered(err error) {
	if left(err) {
		return
	}
	if errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
		err = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = err
}

// leftError is the error of a command whose caller stopped waiting. It says
// nothing about the member. So another caller must not get it as the reason why
// the member does not vote.
type leftError struct{ error }

func (e *leftError) Unwrap() error { return e.error }

// left reports whether err says that nobody waited for the member's answer.
func left(err error) bool {
	var e *leftError
	return errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, errDecided)
}

// within returns asks of the member that end with ctx.
func (m *member) within(ctx context.Context) asks {
	return func(name string, args ...any) (any, error) {
		reply, err := m.Do(ctx, name, args...)
		if err != nil && ctx.Err() != nil {
			err = &leftError{err}
		}
		return reply, err
	}
}

// missing returns why the member did not answer the last call, nil if it did.
func (m *member) missing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}

// stale returns why m must not be sent anything now, and otherwise whether it
// is to be asked first.
func (b *engine) stale(m *member) (why error, ask bool) {
	s, now := m.sitting(), b.uptime()
	if s.why != nil && now < s.again {
		return s.why, false
	}
	fresh := s.why == nil && now-s.at < readEvery && int64(s.at) >= b.met.Load()
	return nil, s.asked && !fresh
}

// ready returns why m does not vote now. It asks the member if it was not asked
// for a while.
func (b *engine) ready(ctx context.Context, m *member) error {
	why, ask := b.stale(m)
	if why == nil && ask {
		why = b.ask(m, m.within(ctx))
	}
	m.answered(why)
	return b.sole(why)
}

// sole returns why nothing may be sent: why, or that any member is of another
// quorum. A client that is refused by one server could find a majority among
// the others while a client of another list holds.
func (b *engine) sole(why error) error {
	for _, m := range b.members {
		if other := ofAnother(m.sitting().why); other != nil {
			return &refusal{other.what, fmt.Sprintf("%s: %s", m, strings.TrimPrefix(other.why, m.name+": "))}
		}
	}
	return why
}

// ofAnother returns err if it says that a member is of another quorum.
func ofAnother(err error) *refusal {
	var other *refusal
	if errors.As(err, &other) && other.what != "" {
		return other
	}
	return nil
}

// vote asks m for its vote.
func (b *engine) vote(ctx context.Context, m *member, key, token string, ttl time.Duration) (backend.Grant,
	error) {
	if err := b.ready(ctx, m); err != nil {
		return nil, err
	}
	g, err := m.TryAs(ctx, key, token, ttl)
	m.answered(err)
	return g, err
}

// extend renews grants of this member.
func (m *member) extend(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	if m.batch != nil {
		return m.batch.ExtendAll(ctx, gs, ttl)
	}
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	for i, g := range gs {
		terms[i], errs[i] = g.Extend(ctx, ttl)
	}
	return terms, errs
}

// Standing is what a member said when it was last asked.
type Standing struct {
	Member string // its name

	// Err is why the member does not vote, nil if it votes or was not asked.
	Err error

	// Refused: the server can be no member at all; Err says why.
	Refused bool

	// VotesAt is when a server that restarted begins to vote, by the clock of
	// this machine. Zero for all others.
	VotesAt time.Time
}

func standing(m *member, err error, now time.Time) Standing {
	s := Standing{Member: m.name, Err: err}
	var rest *restError
	var refused *refusal
	switch {
	case errors.As(err, &rest) && rest.left > 0:
		s.VotesAt = now.Add(rest.left)
	case errors.As(err, &refused):
		s.Refused = true
	}
	return s
}

// check is that of the Backend.
func (b *engine) check(ctx context.Context) []Standing {
	b.each(func(m *member) error {
		err := b.ready(ctx, m)
		if err == nil {
			_, err = m.within(ctx)("PING") // connects
		}
		m.answered(err)
		return nil
	})
	return b.standings()
}

// standings is that of the Backend.
func (b *engine) standings() (all []Standing) {
	for _, m := range b.members {
		s, trouble := m.sitting(), m.missing()
		all = append(all, standing(m, cmp.Or(s.why, trouble), b.cfg.Clock.Now()))
	}
	return all
}

// ShortError says that fewer than a majority of the members vote.
type ShortError struct {
	Key     string
	Members []Standing

	// VotesAt is when a majority votes, by the clock of this machine, if
	// servers that restarted are the only trouble. Zero otherwise.
	VotesAt time.Time
}

// Short returns a [*ShortError] if fewer than a majority of the members votes,
// else nil.
func Short(key string, members []Standing) error {
	e := &ShortError{Key: key, Members: members}
	votes, need := 0, majority(len(members))
	var rests []time.Time
	for _, m := range members {
		switch {
		case m.Err == nil:
			votes++
		case !m.VotesAt.IsZero():
			rests = append(rests, m.VotesAt)
		}
	}
	if votes >= need {
		return nil
	}
	if votes+len(rests) >= need {
		slices.SortFunc(rests, time.Time.Compare)
		e.VotesAt = rests[need-votes-1]
	}
	return e
}

func (e *ShortError) Error() string {
	var s strings.Builder
	votes := 0
	for _, m := range e.Members {
		if m.Err == nil {
			votes++
		}
	}
	fmt.Fprintf(&s, "quorum: key %q: %d of %d members vote, and a lock needs %d", e.Key, votes, len(e.Members),
		majority(len(e.Members)))
	if !e.VotesAt.IsZero() {
		fmt.Fprintf(&s, "; enough vote from %s on", e.VotesAt.UTC().Format("15:04:05Z"))
	}
	for _, m := range e.Members {
		if m.Err != nil {
			fmt.Fprintf(&s, "; %s: %v", m.Member, m.Err)
		}
	}
	return s.String()
}

// Unwrap returns why members do not vote.
func (e *ShortError) Unwrap() (errs []error) {
	for _, m := range e.Members {
		if m.Err != nil {
			errs = append(errs, m.Err)
		}
	}
	return errs
}

// Passing reports whether waiting may help: false if so many servers were
// refused that the others are no majority.
func (e *ShortError) Passing() bool {
	left := 0
	for _, m := range e.Members {
		if !m.Refused {
			left++
		}
	}
	return left >= majority(len(e.Members))
}
