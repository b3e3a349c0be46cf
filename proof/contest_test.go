package proof

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// contest is which clients take part in a history, and what happens to them.
type contest struct {
	protocol  fleet.Protocol
	ours, old int
	lease     time.Duration // lease of the old clients
	spread    time.Duration // spread of all clocks
	ends      bool          // the first and the last client's clock are at the ends of the spread
	gap       time.Duration // gap that getsetlock clients assume
	job       time.Duration // longest job, of old clients and of getsetlock clients
	faults    bool          // connections are cut, commands and replies come late
	late      time.Duration // how late at most
	deaf      bool          // jobs of getsetlock clients do not check whether their lease was lost
}

// held returns the contest's history over some minutes of the bubble's time.
func (c contest) held(t *testing.T, seed uint64) *book {
	b := &book{}
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		long := 6 * time.Minute
		if raced {
			long /= 3
		}
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		var work sync.WaitGroup
		for id := range c.ours + c.old {
			p, rng := c.protocol, rand.New(rand.NewPCG(seed, uint64(id)))
			if id >= c.ours {
				p = fleet.Verbatim
			}
			wire := w.Wire()
			client, err := lock.New(c.backend(t, w.Clock(redistest.Skew{Offset: c.offset(id, rng)}), wire, p),
				c.config(w, p))
			if err != nil {
				t.Fatal(err)
			}
			one := &contender{contest: c, book: b, client: client, id: id, old: p == fleet.Verbatim, rng: rng}
			work.Go(func() { one.run(ctx) })
			if c.faults {
				work.Go(func() { c.harm(ctx, wire, p, rand.New(rand.NewPCG(seed, uint64(1000+id)))) })
			}
			defer func() {
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = client.Close(ended)
			}()
		}
		work.Wait()
	})
	return b
}

// offset draws how far a client's clock is from the server's.
func (c contest) offset(id int, rng *rand.Rand) time.Duration {
	drawn := time.Duration(rng.Int64N(int64(c.spread)+1)) - c.spread/2
	switch {
	case c.ends && id == 0:
		return -c.spread / 2
	case c.ends && id == c.ours+c.old-1:
		return c.spread / 2
	}
	return drawn
}

func (c contest) backend(t *testing.T, clock lock.Clock, wire *redistest.Wire,
	p fleet.Protocol) backend.Store {
	terms := dialect.Terms{Lease: c.lease, Spread: c.spread, Gap: c.gap}
	var b backend.Store
	var err error
	switch p {
	case fleet.Bridged:
		b, err = migrate.New(wire.Pool(), migrate.Config{
			Phases: migrate.Fixed(migrate.Dual), Terms: terms, Clock: clock, Fence: true, Wake: lock.WakeOff,
		})
	case fleet.Hardened:
		b, err = legacy.New(wire.Pool(),
			legacy.Config{Mode: legacy.Hardened, Terms: terms, Clock: clock, Wake: lock.WakeOff})
	default:
		b, err = legacy.New(wire.Pool(),
			legacy.Config{Mode: legacy.Verbatim, Terms: dialect.Terms{Lease: c.lease}, Clock: clock})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c contest) config(w *redistest.World, p fleet.Protocol) lock.Config {
	cfg := lock.Config{Clock: w.Clock(redistest.Skew{}), Wait: 20 * time.Second, Politeness: -1}
	if p == fleet.Verbatim {
		cfg.TTL = c.lease
	} else {
		cfg.RetryEvery = 400 * time.Millisecond // scripts are slow on the embedded server
	}
	return cfg
}

// harm disturbs a client's commands, one after the other. Delays stay within
// the bounds that old clients are assumed to keep. A cut connection leaves open
// whether the command ran.
func (c contest) harm(ctx context.Context, wire *redistest.Wire, p fleet.Protocol, rng *rand.Rand) {
	for ctx.Err() == nil {
		gate := redistest.NewGate()
		harms := []redistest.Action{redistest.HoldRequest(gate), redistest.HoldReply(gate)}
		if p != fleet.Verbatim {
			// an old client that is cut off leaves its lock on the key without
			// holding it
			harms = append(harms, redistest.CutBefore, redistest.CutAfter, redistest.CutWithin)
		}
		wire.Fault(redistest.Rule{Do: harms[rng.IntN(len(harms))]})
		select {
		case <-gate.Reached():
			<-time.After(time.Duration(rng.Int64N(int64(c.late))))
		case <-time.After(time.Duration(rng.Int64N(int64(2 * time.Second)))):
		case <-ctx.Done():
		}
		gate.Open()
		<-time.After(time.Duration(rng.Int64N(int64(2 * time.Second))))
		wire.Calm()
	}
}

// contender is one client with its jobs.
type contender struct {
	contest
	book   *book
	client *lock.Client
	id     int
	old    bool
	rng    *rand.Rand
}

func (c *contender) run(ctx context.Context) {
	for ctx.Err() == nil {
		from := c.book.now()
		lease, err := c.client.Acquire(context.Background(), fleet.Key)
		if err == nil {
			c.book.note(deed{client: c.id, kind: "acquired", from: from, old: c.old})
			c.work(lease)
		}
		<-time.After(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
	}
}

// work is a job. It checks whether it still holds, and at its end writes to the
// counters. An old client never checks.
func (c *contender) work(lease *lock.Lease) {
	began := time.Now()
	fence, _ := lease.Fence()
	plain, fenced := c.book.read(fence)
	end := began.Add(time.Duration(c.rng.Int64N(int64(c.job))))
	looked, held := c.book.now(), began // the last instant at which it was known to hold
	lost := false
	for time.Now().Before(end) && (!lost || c.deaf) {
		<-time.After(min(200*time.Millisecond, time.Until(end)))
		from := c.book.now()
		switch {
		case lost:
		case !c.old && lease.Err() != nil:
			lost = true
			c.book.note(deed{client: c.id, kind: "ended", from: looked, old: c.old})
			c.book.span(span{began, held, c.old})
		default:
			c.book.note(deed{client: c.id, kind: "trusted", from: from, old: c.old})
			looked, held = from, time.Now()
		}
	}
	if !lost || c.deaf {
		c.book.write(plain, fenced, fence)
	}
	from := c.book.now()
	if !lost {
		c.book.span(span{began, time.Now(), c.old})
	}
	_ = lease.Release() // the holder ignores the release's result
	if !lost {
		c.book.note(deed{client: c.id, kind: "ended", from: from, old: c.old})
	}
}
