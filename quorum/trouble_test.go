package quorum_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// TestTroubleMakesNoSecondHolder lets four clients contend for some minutes
// while the servers hang, lose replies, execute requests late and restart
// without their keys. No vote ends early by the law, so two never hold, the
// numbers grow, and in the end no server has a key.
func TestTroubleMakesNoSecondHolder(t *testing.T) {
	for seed := range uint64(8) {
		names := []string{"a b c", "a b c d e"}[seed%2]
		bubble(t, names, func(w *world) {
			x := &trouble{world: w, seed: seed, trusts: map[int]time.Duration{}}
			for i, s := range w.servers {
				s.late = true
				x.all.Go(func() { x.disturb(s, x.random(i)) })
			}
			for i := range 4 {
				b := w.open(quorum.Config{Fences: seed%3 == 0, GreatestTTL: ttl})
				x.all.Go(func() { x.contend(b, i, x.random(10+i)) })
			}
			time.Sleep(5 * time.Minute)
			x.over.Store(true)
			x.all.Wait()
			time.Sleep(ttl + time.Second)
			synctest.Wait()
			for _, s := range w.servers {
				if v := s.value("k"); v != "" {
					w.Errorf("seed %d: %s still has %q", seed, s.name, v)
				}
			}
			if x.grants < 5 {
				w.Errorf("seed %d: %d grants in five minutes", seed, x.grants)
			}
		})
	}
}

// trouble is a crowd of clients on servers in trouble.
type trouble struct {
	*world
	seed uint64
	over atomic.Bool
	all  sync.WaitGroup

	mu     sync.Mutex
	trusts map[int]time.Duration // elapsed time until which each holder trusts its lease
	grants int
	fence  int64
}

func (x *trouble) random(of int) *rand.Rand { return rand.New(rand.NewPCG(x.seed, uint64(of))) }

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// disturb makes trouble on one server.
func (x *trouble) disturb(s *server, r *rand.Rand) {
	ops := []string{"try", "extend", "release", "raise", ""}
	for !x.over.Load() {
		time.Sleep(upTo(r, 1500*time.Millisecond))
		op := ops[r.IntN(len(ops))]
		switch r.IntN(8) {
		case 0, 1, 2:
			free := s.holdOp(op)
			time.Sleep(upTo(r, 3*time.Second))
			free()
		case 3, 4:
			s.fail(op, errAway, r.IntN(2) == 0)
			time.Sleep(upTo(r, 2*time.Second))
			s.fail(op, nil, false)
		case 5:
			if x.seed%4 > 1 {
				s.restart(true)
				time.Sleep(ttl)
			}
		}
	}
}

// contend takes and releases k, again and again.
func (x *trouble) contend(b *quorum.Backend, name int, r *rand.Rand) {
	for !x.over.Load() {
		time.Sleep(upTo(r, time.Second))
		ctx, cancel := context.WithTimeout(bg, upTo(r, 4*time.Second)+time.Millisecond)
		g, err := b.Contract().Try(ctx, "k", ttl)
		cancel()
		var unsure *backend.UnsureError
		switch {
		case err == nil:
			x.hold(g, name, upTo(r, 2*ttl))
			giveBack(g)
		case errors.As(err, &unsure):
			giveBack(unsure.Grant)
		}
	}
}

// giveBack releases a grant, as a Client does.
func giveBack(g backend.Grant) {
	for range 20 {
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			return
		}
		time.Sleep(ttl / 20)
	}
}

// hold renews a grant for some time, unless it is lost.
func (x *trouble) hold(g backend.Grant, name int, job time.Duration) {
	end := backend.ReadClock(bg).Elapsed + job
	term, err := g.Term(), error(nil)
	x.begins(g, name, term)
	for {
		now := backend.ReadClock(bg).Elapsed
		left := x.trusted(name, term) - now
		if errors.Is(err, lock.ErrLost) || now >= end || left <= 0 {
			break
		}
		time.Sleep(min(ttl/4, left))
		var next backend.Term
		ctx, cancel := context.WithTimeout(bg, max(left-ttl/4, time.Millisecond))
		if next, err = g.Extend(ctx, ttl); err == nil && backend.ReadClock(bg).Elapsed < now+left {
			term = next
		}
		cancel()
	}
	x.mu.Lock()
	delete(x.trusts, name)
	x.mu.Unlock()
}

// trusted notes until when a holder trusts its lease: a tenth less than the
// TTL.
func (x *trouble) trusted(name int, t backend.Term) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	until := t.Sent.Elapsed + ttl - ttl/10
	x.trusts[name] = until
	return until
}

// begins checks a grant that was given now.
func (x *trouble) begins(g backend.Grant, name int, t backend.Term) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := backend.ReadClock(bg).Elapsed
	if t.Sent.Elapsed+ttl-ttl/10 <= now {
		return // too late: it is no lease
	}
	for other, until := range x.trusts {
		if until > now {
			x.Errorf("seed %d: clients %d and %d hold", x.seed, other, name)
		}
	}
	x.trusts[name] = t.Sent.Elapsed + ttl - ttl/10
	x.grants++
	if number := fence(g); number != 0 {
		if number <= x.fence {
			x.Errorf("seed %d: number %d after %d", x.seed, number, x.fence)
		}
		x.fence = number
	}
}
