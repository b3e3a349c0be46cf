// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// dialer opens connection n of the program who.
type dialer func(ctx context.Context, who identity, n int) (redis.Conn, error)

// identity names one program: its slot in the fleet, and how many programs of
// that slot died before it.
type identity struct{ slot, life int }

// nobody is the rehearsal itself, which writes the stock and counts what is
// left.
var nobody = identity{slot: -1}

// fleet is the programs that share the shop, and what happens between them.
type fleet struct {
	plan  Plan
	kind  protocolKind
	terms dialect.Terms
	rules rules
	dial  dialer
	book  *book
	locks map[string]*product // by the bytes of key L
	tasks *queue
	began time.Time // all true time counts from here
	teams []*team
	hosts []*machine      // machines, by slot
	slots []kind          // what the first program of each slot is
	ended <-chan struct{} // closed when the work is over
	stop  context.CancelCauseFunc
	close sync.WaitGroup // what still ends after the programs' work

	moves *moves // migration of the fleet; nil: none

	staff
}

// staff says which program works where.
type staff struct {
	mu     sync.Mutex
	posts  []*team   // group of the next program, by slot
	crew   []*worker // running program, by slot; nil: none
	away   *team     // group of which a deployment is under way; nil: none …
	orphan string    // … until another group has the key of this product
}

// newFleet returns a fleet that has sent nothing yet. It is called where the
// programs run, inside the bubble if there is one. The names of its keys begin
// with prefix.
func newFleet(p Plan, prefix string, dial dialer) (*fleet, error) {
	how := protocols[p.Protocol]
	f := &fleet{plan: p, kind: how, dial: dial, began: time.Now(), tasks: newQueue(p)}
	var err error
	if f.terms, f.rules, err = how.legal(p); err != nil {
		return nil, err
	}
	f.rules.clocks = f.clocks
	f.book = &book{now: f.now, late: f.rules.gap}
	if f.book.products, err = p.products(prefix); err != nil {
		return nil, err
	}
	f.locks = make(map[string]*product)
	for _, one := range f.book.products {
		f.locks[one.key] = one
	}
	f.hosts = p.machines(f.began)
	f.teams = how.groups(p)
	for i, t := range f.teams {
		if how.walk == nil { // in a migration the operator decides who dies
			t.fates = p.fates(i, len(f.teams), t.kind == oldClient)
		}
		for range t.Clients {
			f.posts = append(f.posts, t)
		}
		f.slots = append(f.slots, slices.Repeat([]kind{t.kind}, t.Clients)...)
	}
	f.crew = make([]*worker, len(f.posts))
	if how.walk != nil {
		f.moves = newMoves(f, prefix)
	}
	return f, nil
}

func (f *fleet) now() time.Duration { return time.Since(f.began) }

// clocks returns the least and the greatest offset, within a span, of the
// machines that old clients run on. The server's clock is one of them, with
// offset 0, since new clients judge by it.
func (f *fleet) clocks(from, to time.Duration) (low, high time.Duration) {
	for slot, m := range f.hosts {
		if f.slots[slot] == oldClient {
			l, h := m.offsets(max(from, 0), to)
			low, high = min(low, l), max(high, h)
		}
	}
	return low, high
}

// work runs the fleet until every order is done, ctx ends, or a program fails
// in a way that no program should.
func (f *fleet) work(ctx context.Context) error {
	ctx, f.stop = context.WithCancelCause(ctx)
	defer f.stop(nil)
	f.ended = ctx.Done()
	if err := f.fillShelves(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	for slot := range f.posts {
		all.Go(func() { f.employ(ctx, slot) })
	}
	if f.moves != nil {
		all.Go(func() {
			if err := f.moves.run(ctx); err != nil {
				f.stop(err)
			}
		})
	}
	all.Wait()
	f.close.Wait()
	return context.Cause(ctx)
}

// sends is called for each command.
func (f *fleet) sends() {
	f.book.passes()
	if f.book.halted.Load() {
		f.stop(errHalted)
	}
}

// errHalted: the caller's context has ended.
var errHalted = errors.New("the rehearsal was interrupted")

// fillShelves writes the stock.
func (f *fleet) fillShelves(ctx context.Context) error {
	return f.keeper(ctx, func(c redis.Conn) error {
		for _, p := range f.book.products {
			if _, err := c.Do("SET", p.shelf, p.stock); err != nil {
				return fmt.Errorf("writing the stock: %w", err)
			}
		}
		return nil
	})
}

// takeStock counts what is left.
func (f *fleet) takeStock(ctx context.Context) error {
	return f.keeper(ctx, func(c redis.Conn) (err error) {
		for _, p := range f.book.products {
			if p.left, err = redis.Int(c.Do("GET", p.shelf)); err != nil {
				return fmt.Errorf("counting the stock of %q: %w", p.sku, err)
			}
		}
		return nil
	})
}

// keeper calls do with a connection that belongs to no program.
func (f *fleet) keeper(ctx context.Context, do func(redis.Conn) error) error {
	c, err := f.dial(ctx, nobody, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// report returns the result after all work is done.
func (f *fleet) report(ctx context.Context) (*Result, error) {
	if err := f.takeStock(ctx); err != nil {
		return nil, err
	}
	res := &Result{
		Schema: Schema, Protocol: f.plan.Protocol, Seed: f.plan.Seed, Orders: f.plan.Acquisitions,
		Refused: f.book.refused, Clocks: f.clockReport(), Judgement: f.rules.judge(f.book),
	}
	if f.kind.dialect {
		res.Dialect = f.plan.spoken().Name
	}
	res.OK = res.Well()
	if f.plan.History != "" {
		res.History = f.book.history(f.plan.History)
	}
	if f.moves != nil {
		f.moves.report(res)
	}
	for _, t := range f.teams {
		g := t.Group
		g.Commands = t.commands.Load()
		g.WaitP50MS, g.WaitP99MS = quantile(t.waits, 0.50), quantile(t.waits, 0.99)
		g.WaitMaxMS = quantile(t.waits, 1)
		tried := float64(len(t.waits)+g.GaveUp) / float64(max(1, len(t.waits)))
		g.WonP50MS, g.WonP99MS = quantile(t.waits, 0.50*tried), quantile(t.waits, 0.99*tried)
		res.Sales += g.Sales
		res.Groups = append(res.Groups, g)
	}
	slices.SortFunc(res.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return res, nil
}

// clockReport says what the machines' clocks have done so far.
func (f *fleet) clockReport() Clocks {
	c := Clocks{Preset: f.plan.Preset}
	end := f.now()
	var low, high time.Duration
	for _, m := range f.hosts {
		l, h := m.offsets(0, end)
		low, high = min(low, l), max(high, h)
		steps, stops, longest := m.troubles(end)
		c.Steps += steps
		c.Stops += stops
		c.LongestStopMS = max(c.LongestStopMS, millis(longest))
	}
	c.SpreadMS = millis(high - low)
	if f.rules.spread > 0 {
		c.ToldSpreadMS, c.ToldGapMS = new(millis(f.rules.spread)), new(millis(f.rules.gap))
	}
	return c
}

// pause waits for d of true time. If ctx ends first, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
