package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// number gives the grant its fencing number, in a second round. The number is
// the greatest that the members which voted have drawn. It is written back to
// these members where the key still carries the token, so that each draws
// greater ones from then on. A majority must have it: each later majority has
// one of these members in common with it.
func (a *attempt) number() error {
	stood, err := a.g.choose()
	if err != nil {
		return err
	}
	for _, i := range stood {
		a.raising++
		a.spawn(answer{index: i, raise: true}, func() error { return a.g.raise(a.call, i) })
	}
	for {
		raised := a.g.raised()
		switch {
		case raised >= a.b.need:
			return nil
		case raised+a.raising+a.pending < a.b.need || a.cut != nil:
			return a.unraised(raised)
		}
		a.next()
	}
}

// choose sets the number, and returns the members that voted so far. From now
// on, take writes the number to each member that votes later.
func (g *grant) choose() (stood []int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var greatest int64
	for i, v := range g.votes {
		if v.state != stands {
			continue
		}
		f, ok := v.grant.(backend.Fenced)
		if !ok || f.Fence() <= 0 {
			return nil, fmt.Errorf(
				"quorum: key %q: %s draws no fencing numbers; set modern.Config.Fence on every member",
				g.key, g.b.members[i])
		}
		greatest = max(greatest, f.Fence())
		stood = append(stood, i)
	}
	g.fence = greatest
	return stood, nil
}

// raise writes the number back to member i.
func (g *grant) raise(ctx context.Context, i int) error {
	g.mu.Lock()
	granted := g.votes[i].grant
	g.mu.Unlock()
	if granted == nil { // the grant was given back meanwhile
		return errOver
	}
	err := g.b.members[i].Raise(ctx, granted, g.fence)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case errors.Is(err, backend.ErrLost):
		g.lost(i, granted)
	case err == nil && g.votes[i].grant == granted:
		g.votes[i].raised = true
	}
	return err
}

// raised returns how many members voted and have the number.
func (g *grant) raised() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.votes {
		if v.state == stands && v.raised {
			n++
		}
	}
	return n
}

// unraised returns why the number was not written back.
func (a *attempt) unraised(raised int) error {
	if a.cut != nil {
		return a.refusal()
	}
	return &unraisedError{a.g.key, raised, a.b.need, errors.Join(a.errs...)}
}

// unraisedError says that a majority voted, and that fewer members than that
// took the number.
type unraisedError struct {
	key          string
	raised, need int
	err          error
}

func (e *unraisedError) Error() string {
	return fmt.Sprintf("quorum: key %q: its fencing number was written to %d members, and %d are needed: %v",
		e.key, e.raised, e.need, e.err)
}

func (e *unraisedError) Unwrap() error { return e.err }

// Passing is true: votes end between two rounds when a server restarts or the
// TTL is short.
func (e *unraisedError) Passing() bool { return true }
