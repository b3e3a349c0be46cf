package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one acquisition of one key: a token, and what each member has of it.
type grant struct {
	b     *engine
	key   string
	token string       // the key's value on every member
	term  backend.Term // of the acquisition
	fence int64

	mu      sync.Mutex
	ttl     time.Duration // the greatest that was asked for
	votes   []vote        // in the order of the members
	doubts  []doubt       // the oldest first
	granted bool          // it has been given to the caller
	over    bool          // it is being given back, or was
	had     int           // confirmed votes when it was over, less those found lost since
	told    bool          // Release has returned that it holds nothing
	trouble error         // of the last attempt to give a vote back
	news    chan struct{} // closed and replaced at each change that a Release awaits
}

// vote is what one member has of a grant.
type vote struct {
	state  state
	grant  backend.Grant // the member's; set if the key carries, or may carry, the token
	fresh  bool          // taken late or again, and no renewal has confirmed it
	busy   bool          // a renewal is under way
	failed bool          // an attempt to give it back failed
	raised bool          // the member has the fencing number
}

// counts reports whether the vote says that no other client held since the
// grant was given to the caller. A vote that was under way meanwhile, even for
// long, may have come after another holder. It counts as soon as a renewal that
// began after it came has found it, and a majority of votes that counted
// before.
func (v vote) counts() bool { return v.state == stands && !v.fresh }

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

// doubt is an attempt of unknown outcome that a later one replaced.
type doubt struct {
	index int           // of the member
	grant backend.Grant // the member's
}

// mostDoubts bounds the doubts of a grant. Older ones than these have long been
// executed or lost.
const mostDoubts = 16

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

// confirmed returns how many votes count. g.mu is held.
func (g *grant) confirmed() (n int) {
	for _, v := range g.votes {
		if v.counts() {
			n++
		}
	}
	return n
}

// confirm lets vote i count, which had this grant of the member.
func (g *grant) confirm(i int, granted backend.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := &g.votes[i]; v.grant == granted && v.state == stands {
		v.fresh = false
	}
}

// changed wakes the goroutines that wait for news. g.mu is held.
func (g *grant) changed() {
	close(g.news)
	g.news = make(chan struct{})
}

// wants reports whether member i is to be asked for its vote. A lease that has
// lost its majority asks for none: another client may hold. g.mu is held.
func (g *grant) wants(i int) bool {
	if g.over || g.granted && g.confirmed() < g.b.need {
		return false
	}
	v := g.votes[i]
	return !v.busy && (v.state == none || v.state == unsure)
}

// take asks member i for its vote, if the grant wants it, and keeps the
// outcome. If the grant is over by the time of the reply, the vote is given
// back. The caller counts as work of the Backend.
func (g *grant) take(ctx context.Context, i int, ttl time.Duration) error {
	m := g.b.members[i]
	g.mu.Lock()
	if !g.wants(i) {
		g.mu.Unlock()
		return nil
	}
	v := &g.votes[i]
	before := *v
	v.state = asked
	g.mu.Unlock()
	granted, err := g.b.vote(ctx, m, g.key, g.token, ttl)
	if held := (*backend.HeldError)(nil); errors.As(err, &held) && held.Owner == g.token &&
		before.grant != nil {
		granted, err = before.grant, nil // an earlier attempt was executed after all
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	raised := false
	if number := g.fence; err == nil && number != 0 {
		g.mu.Unlock()
		err = raiseAnew(ctx, m, granted, number)
		g.mu.Lock()
		raised = err == nil
	}
	g.keep(i, before, granted, err)
	g.votes[i].raised = raised
	if g.over && g.votes[i].grant != nil {
		g.giveBack(ctx, i)
	} else if g.over {
		g.giveDoubtsBack(ctx, i)
	}
	g.changed()
	return err
}

// raiseAnew writes the grant's number to a member that voted late, or again. A
// vote without the number would let a smaller one follow.
func raiseAnew(ctx context.Context, m *member, granted backend.Grant, number int64) error {
	err := m.Raise(ctx, granted, number)
	if err != nil && !errors.Is(err, backend.ErrLost) {
		return &backend.UnsureError{Grant: granted, Err: err}
	}
	return err
}

// keep records the outcome of an attempt to get vote i, which was before. g.mu
// is held.
func (g *grant) keep(i int, before vote, granted backend.Grant, err error) {
	v := &g.votes[i]
	var open *backend.UnsureError
	switch {
	case err == nil:
		v.state, v.grant, v.fresh = stands, granted, g.granted
	case errors.As(err, &open) && open.Grant != nil:
		v.state, v.grant = unsure, open.Grant
	default:
		v.state, v.grant = before.state, before.grant
		return
	}
	if before.grant == nil || before.grant == v.grant {
		return
	}
	if w := g.b.members[i].waker; w != nil {
		w.Unwatch(before.grant)
	}
	if before.state == unsure {
		if len(g.doubts) == mostDoubts {
			g.doubts = slices.Delete(g.doubts, 0, 1)
		}
		g.doubts = append(g.doubts, doubt{i, before.grant})
	}
}

// lost records that vote i, which had this grant of the member, is gone. g.mu
// is held.
func (g *grant) lost(i int, granted backend.Grant) {
	if v := &g.votes[i]; v.grant == granted && v.state == stands {
		v.state, v.grant = none, nil
	}
}

// isOver reports whether g was given back, or is being.
func (g *grant) isOver() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// lostError says that fewer than a majority of the votes that count are left.
type lostError struct {
	key         string
	left, votes int
	need        int
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%v: key %q has %d of the %d votes that it needs, of %d members", backend.ErrLost,
		e.key,
		e.left, e.need, e.votes)
}

func (e *lostError) Unwrap() error { return backend.ErrLost }

func (g *grant) lostWith(left int) error {
	return &lostError{key: g.key, left: left, votes: len(g.votes), need: g.b.need}
}

var (
	errForeignGrant = errors.New("quorum: this grant belongs to another backend")
	errOver         = fmt.Errorf("quorum: %w: the lease was given back", backend.ErrLost)
)
