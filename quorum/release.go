package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// undoEvery is the first pause between two attempts to give a vote back; each
// further pause is twice as long.
const undoEvery = 50 * time.Millisecond

// Release gives every vote back. It returns when every member has answered. It
// waits only briefly for the others when another client can get a majority:
// they get their votes back in the background, until they confirm that or the
// TTL has passed.
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
	if g.told {
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
	g.told = true
	if g.granted && g.had < g.b.need {
		return g.lostWith(g.had)
	}
	return nil
}

// settle waits until each vote was given back, or an attempt at that failed. As
// soon as no majority is left, it waits only briefly for the rest. g.mu is
// held.
func (g *grant) settle(ctx context.Context) {
	p := newPatience()
	defer p.stop()
	for g.isSettling() {
		var over <-chan time.Time
		if g.count(asked, stands, unsure) < g.b.need {
			over = p.over()
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

// isSettling reports whether the outcome for a vote is open, and no attempt to
// give it back has failed. g.mu is held.
func (g *grant) isSettling() bool {
	return slices.ContainsFunc(g.votes, func(v vote) bool { return v.state != none && !v.failed })
}

// end begins to give every vote back. An attempt that is under way gives its
// vote back when the reply comes. g.mu is held, and the caller counts as work
// of the Backend.
func (g *grant) end(ctx context.Context) {
	if g.over {
		return
	}
	g.over, g.had = true, g.confirmed()
	for i := range g.votes {
		switch g.votes[i].state {
		case stands, unsure:
			g.giveBack(ctx, i)
		case none:
			g.giveDoubtsBack(ctx, i)
		}
	}
}

// giveDoubtsBack starts the undo of the attempts at member i that later ones
// replaced. They have the token of the vote. While that stands, they would take
// its key for their own, so the vote is given back first. g.mu is held, and the
// caller counts as work of the Backend.
func (g *grant) giveDoubtsBack(ctx context.Context, i int) {
	for _, d := range g.doubts {
		if d.index != i {
			continue
		}
		g.b.work.Add(1)
		go g.undo(context.WithoutCancel(ctx), d.grant, g.ttl, undone{
			failed: func(error) {}, over: func(bool) {}})
	}
	g.doubts = slices.DeleteFunc(g.doubts, func(d doubt) bool { return d.index == i })
}

// giveBack starts the undo of vote i. g.mu is held.
func (g *grant) giveBack(ctx context.Context, i int) {
	v := &g.votes[i]
	counted := v.counts()
	if v.state == unsure {
		g.giveDoubtsBack(ctx, i)
	}
	if w := g.b.members[i].waker; w != nil {
		w.Unwatch(v.grant)
	}
	g.b.work.Add(1)
	go g.undo(context.WithoutCancel(ctx), v.grant, g.ttl, undone{
		certain: v.state == stands,
		failed: func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			v.failed, g.trouble = true, fmt.Errorf("%s: %w", g.b.members[i], err)
			g.changed()
		},
		over: func(lost bool) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if lost && counted {
				g.had--
			}
			v.state, v.grant = none, nil
			g.giveDoubtsBack(ctx, i)
			g.changed()
		},
	})
}

// undone has the funcs that an undo calls, and what it knows of the vote.
type undone struct {
	certain bool // the vote stood: "lost" is then a certain answer
	failed  func(error)
	over    func(lost bool)
}

// errUnderWay says that a vote may come yet. It does not wrap backend.ErrLost,
// which would say that another client had the key.
var errUnderWay = errors.New("the request for its vote may still be under way")

// undo gives one vote back, until the member says for certain that it is gone
// or its TTL has passed. "Lost" is no certain answer while the attempt that
// takes the vote may still be under way: it may be executed after the attempt
// that gives it back.
func (g *grant) undo(ctx context.Context, granted backend.Grant, ttl time.Duration, who undone) {
	defer g.b.work.Done()
	from, last := backend.ReadClock(ctx).Elapsed, false
	for pause := undoEvery; ; pause *= 2 {
		err := granted.Release(ctx)
		lost := errors.Is(err, backend.ErrLost)
		passed := backend.ReadClock(ctx).Elapsed - from
		if err == nil || lost && who.certain || passed >= ttl || last {
			who.over(lost)
			return
		}
		if lost {
			err = errUnderWay
		}
		who.failed(err)
		select {
		case <-g.b.cfg.Clock.After(min(pause, ttl-passed)):
		case <-g.b.life.Done():
			last = true
		}
	}
}
