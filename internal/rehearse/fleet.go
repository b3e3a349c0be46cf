package rehearse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// dialer opens connection n of the program who.
type dialer func(ctx context.Context, who identity, n int) (redis.Conn, error)

// identity is one program: a place in the fleet and how many have died in it before.
type identity struct{ slot, life int }

// nobody is whoever fills the shelves and counts what is left.
var nobody = identity{slot: -1}

// fleet is the programs that share the shop, and all that happens between them.
type fleet struct {
	plan  Plan
	kind  protocolKind
	rules rules
	names names
	dial  dialer
	book  *book
	tasks *queue
	began time.Time // all true time is counted from here
	teams []team
	stop  context.CancelCauseFunc
	close sync.WaitGroup
}

// team is a group at work.
type team struct {
	groupSpec
	number   int
	commands atomic.Int64
	fates    map[int]fate // by the number of the group's acquisition
}

// groupSpec is a group of like clients.
type groupSpec struct {
	name     string
	protocol string // what its clients speak
	clients  int
	old      bool // programs that were never told of leases
	make     func(w *worker) (seller, error)
}

// fate is what befalls a holder in the middle of its job.
type fate int

const (
	lives fate = iota
	dies
	overruns
)

// names are the keys of a rehearsal.
type names struct{ prefix string }

func (n names) stock(sku string) string { return n.prefix + "stock:" + sku }
func (n names) lock(sku string) string  { return n.prefix + "lock:" + sku }

// newFleet does not talk to the server. It is called where the programs run, inside the bubble if
// there is one.
func newFleet(p Plan, n names, dial dialer) (*fleet, error) {
	kind, ok := protocols[p.Protocol]
	if !ok {
		return nil, fmt.Errorf("no protocol %q", p.Protocol)
	}
	f := &fleet{plan: p, kind: kind, names: n, dial: dial, began: time.Now()}
	var err error
	if f.rules, err = kind.rules(p); err != nil {
		return nil, err
	}
	specs := kind.groups(p)
	f.book = newBook(len(specs), f.now)
	f.tasks = newQueue(p)
	f.teams = make([]team, len(specs))
	for i := range specs {
		f.teams[i].groupSpec = specs[i]
		f.teams[i].number = i
		f.teams[i].fates = p.fates(i, len(specs), specs[i].old)
	}
	return f, nil
}

func (f *fleet) now() time.Duration { return time.Since(f.began) }

// fates draws which acquisitions of a group end badly: within its fair share of the work and not at
// the very end, so that somebody is left to notice.
func (p Plan) fates(group, groups int, old bool) map[int]fate {
	r := p.rand(streamFate, group)
	among := max(p.Acquisitions/groups*7/10, 1)
	all := make(map[int]fate)
	draw := func(n int, what fate) {
		for range min(n, among-len(all)) {
			at := r.IntN(among)
			for all[at] != lives {
				at = (at + 1) % among
			}
			all[at] = what
		}
	}
	draw(p.Crashes, dies)
	if old {
		draw(p.Overruns, overruns)
	}
	return all
}

// work runs the whole fleet until every order is done, ctx ends or a program meets trouble that no
// program should meet.
func (f *fleet) work(ctx context.Context) error {
	ctx, f.stop = context.WithCancelCause(ctx)
	defer f.stop(nil)
	if err := f.fillShelves(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	slot := 0
	for i := range f.teams {
		for range f.teams[i].clients {
			n := slot
			slot++
			all.Go(func() { f.employ(ctx, &f.teams[i], n) })
		}
	}
	all.Wait()
	f.close.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return nil
}

// employ keeps one place of the fleet filled: a program that died is started anew after a while.
//
// No two programs start at the same instant: which one of those that wake together runs first is the
// scheduler's choice, and would not be the same in the next run.
func (f *fleet) employ(ctx context.Context, t *team, slot int) {
	pause(ctx, time.Duration(slot)*startsApart)
	for life := 0; ctx.Err() == nil; life++ {
		w, err := f.start(ctx, t, slot, life)
		if err != nil {
			f.stop(fmt.Errorf("a program of the %s group cannot start: %w", t.name, err))
			return
		}
		died := w.serve(ctx)
		if !died {
			w.quit()
			return
		}
		w.bury(&f.close)
		pause(ctx, restart)
	}
}

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

// keeper lends a connection that belongs to none of the programs.
func (f *fleet) keeper(ctx context.Context, do func(redis.Conn) error) error {
	c, err := f.dial(ctx, nobody, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// report is what is known when all work is done.
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
		res.Dialect = f.plan.Dialect
	}
	res.OK = res.Well()
	for i := range f.teams {
		t, did := &f.teams[i], &f.book.tallies[i]
		res.Groups = append(res.Groups, Group{
			Name: t.name, Protocol: t.protocol, Clients: t.clients, Acquisitions: did.acquisitions,
			Sales: did.sales, Takeovers: did.takeovers, Lost: did.lost, Retries: did.retries,
			Commands:  t.commands.Load(),
			WaitP50MS: quantile(did.waits, 0.50), WaitP99MS: quantile(did.waits, 0.99),
		})
	}
	slices.SortFunc(res.Groups, func(a, b Group) int { return compareNames(a.Name, b.Name) })
	return res, nil
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// task is one order on its way.
type task struct {
	Order
	think time.Duration // how long whoever serves it thinks
}

// queue hands out orders, those that came back first.
type queue struct {
	mu   sync.Mutex
	plan Plan
	next int
	back []*task
	out  int           // handed out and neither done nor back
	turn chan struct{} // closed and made anew when something changes for those who wait
}

func newQueue(p Plan) *queue { return &queue{plan: p, turn: make(chan struct{})} }

// take returns nil when all is done or ctx has ended. While orders are out that may yet come back
// it waits.
func (q *queue) take(ctx context.Context) *task {
	for ctx.Err() == nil {
		q.mu.Lock()
		t, turn, over := q.pop(), q.turn, q.out == 0
		q.mu.Unlock()
		if t != nil || over {
			return t
		}
		select {
		case <-turn:
		case <-ctx.Done():
		}
	}
	return nil
}

func (q *queue) pop() *task {
	if n := len(q.back); n > 0 {
		t := q.back[n-1]
		q.back = q.back[:n-1]
		q.out++
		return t
	}
	if q.next == q.plan.Acquisitions {
		return nil
	}
	n := q.next
	q.next++
	q.out++
	return &task{
		Order: q.plan.Orders[n%len(q.plan.Orders)],
		think: q.plan.Job.Draw(q.plan.rand(streamJob, n)),
	}
}

// finish says that a task is done; with again, that somebody else must do it.
func (q *queue) finish(t *task, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.out--
	if again {
		q.back = append(q.back, t)
	}
	close(q.turn)
	q.turn = make(chan struct{})
}

// pause waits for d of true time or until ctx ends, and says which in its error.
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
