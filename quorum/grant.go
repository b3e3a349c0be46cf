// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one acquisition of one key: a token, and what each member has of it.
type grant struct {
	b     *engine
	key   string
	token string       // the key's value on every member
	term  backend.Term // of the acquisition
	fence int64

	mu         sync.Mutex
	ttl        time.Duration // the greatest that was asked for
	votes      []vote        // in the order of the members
	given      bool          // to the caller
	over       bool          // it is being given back, or was
	had        int           // votes that counted when it was over, less those found lost since
	freed      bool          // Release has returned that it holds nothing
	confirming bool          // a renewal that confirms late votes is about to begin
	trouble    error         // of the last attempt to give a vote back
	news       chan struct{} // closed and replaced at each change that a Release awaits
}

// vote is what one member has of a grant.
type vote struct {
	state  state
	grant  backend.Grant   // the member's; set if the key carries, or may carry, the token
	older  []backend.Grant // of earlier attempts of unknown outcome
	ends   time.Duration   // elapsed time at which its own term is over
	late   bool            // it came after the acquisition, and no renewal has confirmed it
	failed bool            // an attempt to give it back failed
	raised bool            // the member has the fencing number
}

// counts reports whether the vote says that no other client has held since the
// grant was given to the caller.
func (v vote) counts() bool { return v.state == stands && !v.late }

// state is the state of one vote:
//
//	none ──▶ asked ──▶ stands ──▶ none (a renewal or a look found it lost)
//	 ▲          │
//	 │ refused  │ no reply
//	 └──────────┴────▶ unsure
//
// When the grant is given back, every vote that stands or is unsure becomes
// none as soon as the member confirmed that.
type state uint8

const (
	none   state = iota // the member does not have our token
	asked               // an attempt is under way
	stands              // the member has our token, as far as is known
	unsure              // the member may have our token
)

// mostOlder bounds vote.older. Attempts before these have long been executed,
// or never will be.
const mostOlder = 16

func (b *engine) newGrant(key string, ttl time.Duration) *grant {
	token := newToken()
	if b.cfg.Note != "" {
		token += " " + b.cfg.Note
	}
	return &grant{b: b, key: key, token: token, ttl: ttl, votes: make([]vote, len(b.members)),
		news: make(chan struct{})}
}

func (g *grant) Token() string      { return g.token }
func (g *grant) Fence() int64       { return g.fence }
func (g *grant) Term() backend.Term { return g.term }

// Share lets the next holder of this process use the same votes, if there are
// no fencing numbers.
func (g *grant) Share() (backend.Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g, !g.over && !g.b.cfg.Fences
}

// count returns how many votes are in one of the states. g.mu is held.
func (g *grant) count(states ...state) (n int) {
	for _, v := range g.votes {
		if slices.Contains(states, v.state) {
			n++
		}
	}
	return n
}

// counting returns how many votes count. g.mu is held.
func (g *grant) counting() (n int) {
	for _, v := range g.votes {
		if v.counts() {
			n++
		}
	}
	return n
}

// changed wakes the goroutines that wait for news. g.mu is held.
func (g *grant) changed() {
	close(g.news)
	g.news = make(chan struct{})
}

// wants reports whether member i is to be asked for its vote. A lease that has
// lost its majority asks for none: another client may hold. g.mu is held.
func (g *grant) wants(i int) bool {
	if g.over || g.given && g.counting() < g.b.need {
		return false
	}
	return g.votes[i].state == none || g.votes[i].state == unsure
}

// take asks member i for its vote, if the grant wants it, and keeps the
// outcome. If the grant is over by the time of the reply, the vote is given
// back. The caller counts as work of the Backend.
func (g *grant) take(ctx context.Context, i int, ttl time.Duration) error {
	m := g.b.members[i]
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.wants(i) {
		return nil
	}
	before := g.votes[i]
	g.votes[i].state = asked
	g.mu.Unlock()
	granted, err := g.b.vote(ctx, m, g.key, g.token, ttl)
	var held *backend.HeldError
	if errors.As(err, &held) && before.grant != nil {
		// Perhaps the earlier attempt was executed after all.
		if _, old := before.grant.Extend(ctx, ttl); old == nil {
			granted, err = before.grant, nil
		}
	}
	g.mu.Lock()
	raised := false
	if number := g.fence; err == nil && number != 0 {
		// Without the number, the vote would let a smaller one follow.
		g.mu.Unlock()
		if err = m.Raise(ctx, granted, number); err != nil && !errors.Is(err, backend.ErrLost) {
			err = &backend.UnsureError{Grant: granted, Err: err}
		}
		g.mu.Lock()
		raised = err == nil
	}
	g.keep(i, before, granted, err)
	g.votes[i].raised = raised
	if g.over {
		g.giveBack(ctx, i)
	} else if g.votes[i].state == stands && g.votes[i].late {
		g.confirmSoon(ctx)
	}
	g.changed()
	return err
}

// keep records the outcome of an attempt to get vote i, which was before. g.mu
// is held.
func (g *grant) keep(i int, before vote, granted backend.Grant, err error) {
	v := &g.votes[i]
	var open *backend.UnsureError
	switch {
	case err == nil:
		// It may have been under way while another client held and released.
		v.state, v.grant, v.late, v.ends = stands, granted, g.given, ends(granted.Term(), g.ttl)
	case errors.As(err, &open) && open.Grant != nil:
		v.state, v.grant = unsure, open.Grant
	default:
		v.state, v.grant = before.state, before.grant
		return
	}
	if before.grant == nil || before.grant == v.grant {
		return
	}
	if len(v.older) == mostOlder {
		v.older = v.older[1:]
	}
	v.older = append(v.older, before.grant)
}

// ends returns the elapsed time at which a term is over.
func ends(t backend.Term, ttl time.Duration) time.Duration {
	if t.TTL != 0 {
		ttl = t.TTL
	}
	return t.Sent.Elapsed + ttl
}

// lost records that vote i, which had this grant of the member, is gone. g.mu
// is held.
func (g *grant) lost(i int, granted backend.Grant) {
	if v := &g.votes[i]; v.grant == granted && v.state == stands {
		v.state, v.grant = none, nil
	}
}

// undoEvery is the first pause between two attempts to give a vote back; each
// further pause is twice as long.
const undoEvery = 50 * time.Millisecond

// leastGrace is the shortest wait for members that are slower than a majority.
// It is longer than replies of one network differ, and in real time, as all
// network deadlines are.
const leastGrace = 5 * time.Millisecond

// Release gives every vote back. It returns when every member has answered, or
// a while after another client can get a majority: the slower members get their
// votes back in the background, until they confirm that or the TTL has passed.
//
// It returns:
//
//   - nil: the grant does not hold the key. Attempts to give a minority of the
//     votes back may be under way; they compare the token.
//   - an error that wraps [backend.ErrLost]: the votes found lost leave no
//     majority of votes that count.
//   - another error: a majority may still have our token.
func (g *grant) Release(ctx context.Context) error {
	if !g.b.begin() {
		return fmt.Errorf("quorum: could not release key %q: %w", g.key, lock.ErrClosed)
	}
	defer g.b.work.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freed {
		return errOver
	}
	g.end(ctx)
	g.settle(ctx)
	open := g.count(asked, stands, unsure)
	switch {
	case open >= g.b.need && ctx.Err() != nil:
		return fmt.Errorf("quorum: could not release key %q: %w", g.key, context.Cause(ctx))
	case open >= g.b.need:
		return fmt.Errorf("quorum: could not release key %q on a majority: %w", g.key, g.trouble)
	}
	g.freed = true
	if g.given && g.had < g.b.need {
		return g.lostWith(g.had)
	}
	return nil
}

// ReleaseIn ends a grant and leaves its votes with their members for rest. A
// member that does not hear of it keeps its vote for the TTL of before. Fewer
// than a majority do.
func (b *engine) ReleaseIn(ctx context.Context, granted backend.Grant, rest time.Duration) error {
	g, ok := granted.(*grant)
	if !ok || g.b != b {
		return errForeignGrant
	}
	g.mu.Lock()
	over := g.over
	g.mu.Unlock()
	if over {
		return errOver
	}
	_, err := g.Extend(ctx, rest)
	if err == nil || errors.Is(err, backend.ErrLost) {
		g.mu.Lock()
		g.over, g.freed = true, true
		g.mu.Unlock()
	}
	return err
}

// settle waits until each vote was given back, or an attempt at that failed. As
// soon as no majority is left, it waits as long again for the rest. It does so
// in real time, like a network deadline: the key is free of this grant by then.
// g.mu is held.
func (g *grant) settle(ctx context.Context) {
	began := time.Now()
	var over <-chan time.Time
	settling := func(v vote) bool { return v.state != none && !v.failed }
	for slices.ContainsFunc(g.votes, settling) {
		if over == nil && g.count(asked, stands, unsure) < g.b.need {
			over = time.After(max(time.Since(began), leastGrace))
		}
		news := g.news
		g.mu.Unlock()
		select {
		case <-news:
			g.mu.Lock()
			continue
		case <-over:
		case <-ctx.Done():
		}
		g.mu.Lock()
		return
	}
}

// end begins to give every vote back. An attempt that is under way gives its
// vote back when the reply comes. g.mu is held, and the caller counts as work
// of the Backend.
func (g *grant) end(ctx context.Context) {
	if g.over {
		return
	}
	if g.over, g.had = true, g.counting(); g.given {
		g.b.usual.freed(g.key, g.b.elapsed())
	}
	for i := range g.votes {
		if g.votes[i].state != asked {
			g.giveBack(ctx, i)
		}
	}
}

// giveBack starts the undo of vote i, and then of the earlier attempts to take
// it: they have the same token. g.mu is held.
func (g *grant) giveBack(ctx context.Context, i int) {
	v := &g.votes[i]
	current, older, certain, counted := v.grant, v.older, v.state == stands, v.counts()
	ttl := g.ttl
	v.older = nil
	if current == nil && len(older) == 0 {
		return
	}
	if w := g.b.members[i].waker; w != nil && current != nil {
		w.Unwatch(current)
	}
	ctx = context.WithoutCancel(ctx)
	g.b.work.Add(1)
	go func() {
		defer g.b.work.Done()
		if current != nil {
			lost := g.b.undo(ctx, current, ttl, certain, func(err error) {
				g.mu.Lock()
				defer g.mu.Unlock()
				v.failed, g.trouble = true, fmt.Errorf("%s: %w", g.b.members[i], err)
				g.changed()
			})
			g.mu.Lock()
			if lost && counted {
				g.had--
			}
			v.state, v.grant = none, nil
			g.changed()
			g.mu.Unlock()
		}
		for _, old := range slices.Backward(older) {
			g.b.undo(ctx, old, ttl, false, func(error) {})
		}
	}()
}

// errUnderWay says that a vote may come yet. It does not wrap backend.ErrLost,
// which would say that another client had the key.
var errUnderWay = errors.New("the request for its vote may still be under way")

// undo gives one vote back, until the member says for certain that it is gone
// or its TTL has passed. It returns whether the member said that it was lost.
// That is no certain answer while the attempt that takes the vote may still be
// under way: it may be executed after the attempt that gives it back.
func (b *engine) undo(ctx context.Context, granted backend.Grant, ttl time.Duration, certain bool,
	failed func(error)) bool {
	from, last := backend.ReadClock(ctx).Elapsed, false
	for pause := undoEvery; ; pause *= 2 {
		err := granted.Release(ctx)
		lost := errors.Is(err, backend.ErrLost)
		passed := backend.ReadClock(ctx).Elapsed - from
		switch {
		case restarted(err): // it grants the vote to nobody before the TTL has passed
			return true
		case err == nil || lost && certain || passed >= ttl || last:
			return lost
		}
		if lost {
			err = errUnderWay
		}
		failed(err)
		select {
		case <-b.cfg.Clock.After(min(pause, ttl-passed)):
		case <-b.life.Done():
			last = true
		}
	}
}

// lostError says that fewer than a majority of the votes that count are left.
type lostError struct {
	key               string
	left, votes, need int
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%v: key %q has %d of the %d votes that it needs, of %d members", backend.ErrLost,
		e.key, e.left, e.need, e.votes)
}

func (e *lostError) Unwrap() error { return backend.ErrLost }

func (g *grant) lostWith(left int) error {
	return &lostError{key: g.key, left: left, votes: len(g.votes), need: g.b.need}
}

var (
	errForeignGrant = errors.New("quorum: this grant belongs to another backend")
	errOver         = fmt.Errorf("quorum: %w: the lease was given back", backend.ErrLost)
)
