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

	"github.com/getsetlock/getsetlock/legacy"
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
	rules rules
	dial  dialer
	book  *book
	tasks *queue
	began time.Time // all true time counts from here
	teams []team
	hosts []*machine // machines, by slot
	keyring
	ended <-chan struct{} // closed when the work is over
	stop  context.CancelCauseFunc
	close sync.WaitGroup // what still ends after the programs' work

	moves *moves // migration of the fleet; nil: none

	staff
}

// keyring are the names of a rehearsal's keys.
type keyring struct {
	names names
	locks map[string]string // products, by the bytes of their key L
	keys  map[string]string // the bytes of key L, by product
	marks map[string]string // the bytes of key M, which alone has a token in clean, by product
}

// staff says which program works where.
type staff struct {
	mu     sync.Mutex
	posts  []*team   // group of the next program, by slot
	crew   []*worker // running program, by slot; nil: none
	away   *team     // group of which a deployment is under way; nil: none …
	orphan string    // … until another group has the key of this product
}

// names makes the names of a rehearsal's keys.
type names struct{ prefix string }

func (n names) stock(sku string) string { return n.prefix + "stock:" + sku }
func (n names) lock(sku string) string  { return n.prefix + "lock:" + sku }

// newFleet returns a fleet that has sent nothing yet. It is called where the
// programs run, inside the bubble if there is one.
func newFleet(p Plan, n names, dial dialer) (*fleet, error) {
	how, ok := protocols[p.Protocol]
	if !ok {
		return nil, fmt.Errorf("no protocol %q", p.Protocol)
	}
	f := &fleet{plan: p, kind: how, keyring: keyring{names: n}, dial: dial, began: time.Now()}
	var err error
	if f.rules, err = how.rules(p); err != nil {
		return nil, err
	}
	if f.locks, err = p.lockKeys(n); err != nil {
		return nil, err
	}
	f.marks, f.keys = make(map[string]string), make(map[string]string)
	for key, sku := range f.locks {
		f.keys[sku] = key
		f.marks[sku] = legacy.MarkKey(key)
	}
	f.hosts = p.machines(f.began)
	f.rules.clocks = f.clocks
	specs := how.groups(p)
	var kinds []kind
	for _, s := range specs {
		kinds = append(kinds, s.kind)
	}
	f.book = newBook(kinds, f.now)
	f.book.late = f.rules.gap
	f.tasks = newQueue(p)
	f.teams = make([]team, len(specs))
	for i := range specs {
		f.teams[i].groupSpec = specs[i]
		f.teams[i].number = i
		if how.walk == nil { // in a migration the operator decides who dies
			f.teams[i].fates = p.fates(i, len(specs), specs[i].kind == oldClient)
		}
	}
	for i := range f.teams {
		for range f.teams[i].clients {
			f.posts = append(f.posts, &f.teams[i])
		}
	}
	f.crew = make([]*worker, len(f.posts))
	if how.walk != nil {
		f.moves = newMoves(f)
	}
	return f, nil
}

func (f *fleet) now() time.Duration { return time.Since(f.began) }

// lockKeys returns the products, by the bytes of their locks' keys on the
// server.
func (p Plan) lockKeys(n names) (map[string]string, error) {
	all := make(map[string]string)
	for _, sku := range p.skus() {
		key, err := p.spoken().EncodeKey(n.lock(sku))
		if err != nil {
			return nil, err
		}
		all[key] = sku
	}
	return all, nil
}

// clocks returns the least and the greatest offset, within a span, of the
// machines that old clients run on. The server's clock is one of them, with
// offset 0, since new clients judge by it.
func (f *fleet) clocks(from, to time.Duration) (low, high time.Duration) {
	slot := 0
	for i := range f.teams {
		for range f.teams[i].clients {
			if f.teams[i].kind == oldClient {
				l, h := f.hosts[slot].offsets(max(from, 0), to)
				low, high = min(low, l), max(high, h)
			}
			slot++
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
			if err := f.moves.conduct(ctx); err != nil {
				f.stop(err)
			}
		})
	}
	all.Wait()
	f.close.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
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
		for sku, n := range f.plan.stock() {
			if _, err := c.Do("SET", f.names.stock(sku), n); err != nil {
				return fmt.Errorf("writing the stock: %w", err)
			}
		}
		return nil
	})
}

// takeStock counts what is left.
func (f *fleet) takeStock(ctx context.Context) (map[string]int, error) {
	left := make(map[string]int)
	err := f.keeper(ctx, func(c redis.Conn) error {
		for _, sku := range f.plan.skus() {
			n, err := redis.Int(c.Do("GET", f.names.stock(sku)))
			if err != nil {
				return fmt.Errorf("counting the stock of %q: %w", sku, err)
			}
			left[sku] = n
		}
		return nil
	})
	return left, err
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
	left, err := f.takeStock(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Schema: Schema, Protocol: f.plan.Protocol, Seed: f.plan.Seed, Orders: f.plan.Acquisitions,
		Sales: f.book.sales, Refused: f.book.refused,
		Judgement: f.rules.judge(f.book, f.plan.stock(), left),
	}
	if f.kind.dialect {
		res.Dialect = f.plan.spoken().Name
	}
	res.OK = res.Well()
	if f.plan.History != "" {
		res.History = f.book.history(f.plan.History, f.plan.stock(), left, f.plan.ordered())
	}
	if f.moves != nil {
		f.moves.report(res, f.rules)
	}
	res.Clocks = f.clockReport()
	for i := range f.teams {
		t, did := &f.teams[i], &f.book.tallies[i]
		res.Groups = append(res.Groups, Group{
			Name: t.name, Protocol: t.protocol, Clients: max(t.clients, t.most),
			Acquisitions: did.acquisitions,
			Sales:        did.sales, Takeovers: did.takeovers, Lost: did.lost, Retries: did.retries,
			Commands:  t.commands.Load(),
			WaitP50MS: quantile(did.waits, 0.50), WaitP99MS: quantile(did.waits, 0.99),
			WaitMaxMS: quantile(did.waits, 1),
		})
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
		spread, gap := millis(f.rules.spread), millis(f.rules.gap)
		c.ToldSpreadMS, c.ToldGapMS = &spread, &gap
	}
	return c
}

// pause waits for d of true time. If ctx ends first, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
