// SPDX-License-Identifier: Apache-2.0

// Package moving moves a fleet to another store: real old clients and Go
// programs on a real Redis server become programs that use the other store
// alone. The tests of each store's module call it.
package moving

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// Key is the lock of the fleet, on both stores.
const Key = "stock:42"

const (
	namespace = "stock:"
	elsewhere = "the other store" // what members call it
	counter   = "counter"         // counted up by a read and a write; only the lock keeps two of these apart
	ttl       = 10 * time.Second
	each      = 3                      // how often each client counts before the next stage begins
	between   = 100 * time.Millisecond // longest pause of a program between two jobs
)

// claims are what an operator knows of old clients that are stopped.
var claims = fleet.Claims{
	Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: 30 * time.Second, Gone: true,
}

// Move moves the fleet, and fails the test if a count is lost or two clients
// held at the same time. target returns a backend of the other store, as
// another process would have. At the end, last is called while programs that
// know the other store alone are at work. They must have counted on when it
// returns.
func Move(t *testing.T, target func() backend.Store, last func()) {
	s := redistest.Real(t, redistest.Options{})
	f := &fleets{t: t, server: s, pool: s.Pool(), target: target}
	if _, err := fleet.Init(f.ctx(), f.pool, f.options()); err != nil {
		t.Fatal(err)
	}
	f.startJVM()
	f.observeAndDual()
	f.stopOldClients()
	f.sealedToClean()
	f.leaveRedis(last)
	f.check()
}

// observeAndDual has the stages in which old clients work.
func (f *fleets) observeAndDual() {
	f.oldClient()
	f.count()
	f.joins("till", "", f.bridge())
	f.oldClient() // two alone would keep each other waiting for long
	f.count()     // as before the other store came
	f.joins("shop", elsewhere, f.composed())
	f.count() // one program knows the other store, the other does not
	f.step(migrate.Dual)
	f.count()
	f.leaves("till")
	f.joins("till 2", "", f.bridge())
	f.count()
}

// stopOldClients steps to sealed. The gate is closed while the old clients run,
// and while nothing says that they are gone.
func (f *fleets) stopOldClients() {
	unproven := claims
	unproven.Gone = false
	o := f.options()
	o.Claims, o.Go, o.To = unproven, true, migrate.Sealed
	r, err := fleet.Advance(f.ctx(), f.pool, o)
	if err != nil {
		f.t.Fatal(err)
	}
	missing := func(b fleet.Finding) bool { return b.Rule == "window" || b.Rule == "old-clients" }
	if r.Moved || r.Gate == nil || !slices.ContainsFunc(r.Gate.Blocks, missing) {
		f.t.Errorf("the gate to sealed beside old clients: moved %v, %+v", r.Moved, r.Gate)
	}
	for _, l := range f.loops {
		if err := l.Stop(f.ctx()); err != nil {
			f.t.Fatal(err)
		}
	}
	for i, l := range f.loops {
		report, err := l.Wait(f.ctx())
		if err != nil {
			f.t.Fatal(err)
		}
		spans, err := l.Spans(f.ctx())
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Logf("old client %d had the lock %d times", i, report.Acquired)
		f.counted.Add(int64(report.Acquired))
		for _, s := range spans { // in µs of the machine's wall clock, which the JVM reads too
			f.spends(s.Held*1000, s.Released*1000, 0)
		}
	}
	f.loops = nil
	f.step(migrate.Sealed)
}

// sealedToClean keeps old clients out. Before clean, the last program that does
// not know the other store is replaced.
func (f *fleets) sealedToClean() {
	f.count()
	forgotten := interop.NewClient(f.t, f.jvm, f.server.Addr())
	if err := forgotten.Lock(f.ctx(), interop.Jar, Key, time.Second, time.Minute); err != nil {
		f.t.Fatal(err)
	}
	if got, err := forgotten.Acquire(f.ctx()); err != nil || got.Won {
		f.t.Errorf("an old client in sealed: %+v, %v", got, err)
	}
	f.step(migrate.Modern)
	f.count()
	f.refused()
	f.leaves("till 2")
	f.joins("till 3", elsewhere, f.composed())
	f.count()
	f.step(migrate.Clean)
	f.count()
}

// refused tries the step to clean while a program does not know the other
// store. Both would hold then.
func (f *fleets) refused() {
	o := f.options()
	o.Claims, o.Go = claims, true
	r, err := fleet.CleanUp(f.ctx(), f.pool, o)
	if err != nil {
		f.t.Fatal(err)
	}
	asks := func(b fleet.Finding) bool { return b.Rule == "target" }
	if r.Moved || r.Gate == nil || !slices.ContainsFunc(r.Gate.Blocks, asks) {
		f.t.Errorf("the gate to clean beside a member without the target: moved %v, %+v", r.Moved, r.Gate)
	}
}

// leaveRedis replaces the members by programs that know the other store alone.
// Then the old server is not needed.
func (f *fleets) leaveRedis(last func()) {
	f.plain("till 4")
	f.count() // members in clean and a program without Redis
	f.plain("shop 2")
	f.leaves("till 3")
	f.leaves("shop")
	if m, err := redis.String(f.server.Do("GET", legacy.MarkKey(Key)), nil); !errors.Is(err, redis.ErrNil) {
		f.t.Errorf("M is left on the old server: %q, %v", m, err)
	}
	f.count()
	f.endRedis()
	f.count()
	last()
	f.count()
	f.leaves("till 4")
	f.leaves("shop 2")
}

// endRedis takes the counter from the old server, under the lock, and stops
// that server.
func (f *fleets) endRedis() {
	c, err := lock.New(f.target(), lock.Config{TTL: ttl})
	if err != nil {
		f.t.Fatal(err)
	}
	err = c.Do(f.ctx(), Key, func(context.Context) error {
		n, err := redis.Int64(f.server.Do("GET", counter), nil)
		f.memory.Store(n)
		f.ended.Store(true)
		f.server.Kill()
		return err
	})
	if err := errors.Join(err, c.Close(f.ctx())); err != nil {
		f.t.Fatal(err)
	}
}

// check compares the counter with what all clients counted, and the times for
// which each believed that it held with those of a lock.
func (f *fleets) check() {
	if n, counted := f.memory.Load(), f.counted.Load(); n != counted {
		f.t.Errorf("%d acquisitions, and the counter says %d: updates were lost", counted, n)
	}
	f.held.Check(f.t, history.Lock)
}

// spends records that a client held the lock. Each time counts as a client of
// its own. fence is the other store's number; 0: none.
func (f *fleets) spends(from, until, fence int64) {
	id := int(f.holders.Add(1))
	f.held.Note(history.Step{Client: id, Kind: history.Acquired, From: from, To: from, Fence: fence})
	f.held.Note(history.Step{Client: id, Kind: history.Ended, From: until, To: until})
}

// fleets are the clients of one test.
type fleets struct {
	t      *testing.T
	server *redistest.Server
	pool   *redis.Pool
	jvm    *interop.JVM
	target func() backend.Store

	loops    []*interop.Loop // of old clients
	programs []*program

	ended  atomic.Bool  // the old server has ended
	memory atomic.Int64 // the counter after that

	held    history.Steps
	holders atomic.Int64 // how often the lock was held
	counted atomic.Int64
}

func (f *fleets) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fleets) options() fleet.Options { return fleet.Options{Namespace: namespace} }

func (f *fleets) startJVM() {
	_, file, _, _ := runtime.Caller(0) // the working folder may be another module's
	jar := filepath.Join(filepath.Dir(file), "..", "..", "..", "java", "interop", "target", "interop.jar")
	j, err := interop.Start(f.ctx(), interop.Options{Jar: jar})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = j.Close() })
	f.jvm = j
}

// oldClient starts a client of the original Java lock.
func (f *fleets) oldClient() {
	f.t.Helper()
	c := interop.NewClient(f.t, f.jvm, f.server.Addr())
	if err := c.Lock(f.ctx(), interop.Jar, Key, redistest.Patience, time.Minute); err != nil {
		f.t.Fatal(err)
	}
	l, err := c.StartLoop(f.ctx(), counter, time.Millisecond, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.loops = append(f.loops, l)
}

// program is a Go program that counts until it leaves.
type program struct {
	name    string
	member  *migrate.Member // nil where it knows the other store alone
	old     bool            // it does not know the other store
	client  *lock.Client
	counted atomic.Int64
	stop    context.CancelFunc
	done    chan struct{}
}

// bridge makes the backend of a program that does not know the other store.
func (f *fleets) bridge() func(*migrate.Member) (backend.Store, error) {
	return func(m *migrate.Member) (backend.Store, error) {
		return migrate.New(f.pool, migrate.Config{Phases: m})
	}
}

// composed makes the backend of a program that knows both.
func (f *fleets) composed() func(*migrate.Member) (backend.Store, error) {
	return func(m *migrate.Member) (backend.Store, error) {
		b, err := migrate.New(f.pool, migrate.Config{Phases: m})
		if err != nil {
			return nil, err
		}
		return migrate.Compose(b, f.target())
	}
}

// joins starts a program that is a member. target is empty where the backend
// knows the old server alone.
func (f *fleets) joins(name, target string, backend func(*migrate.Member) (backend.Store, error)) {
	f.t.Helper()
	m, err := migrate.Join(f.ctx(), f.pool, migrate.MemberConfig{Namespace: namespace, Name: name,
		Target: target, Every: 200 * time.Millisecond})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = m.Leave() })
	b, err := backend(m)
	if err != nil {
		f.t.Fatal(err)
	}
	_, old := b.(*migrate.Bridge)
	f.starts(&program{name: name, member: m, old: old}, b)
}

func (f *fleets) plain(name string) { f.starts(&program{name: name}, f.target()) }

func (f *fleets) starts(p *program, b backend.Store) {
	f.t.Helper()
	c, err := lock.New(b, lock.Config{TTL: ttl})
	if err != nil {
		f.t.Fatal(err)
	}
	p.client, p.done = c, make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	f.programs = append(f.programs, p)
	go f.work(ctx, p)
	f.t.Cleanup(func() { stop(); <-p.done; _ = c.Close(f.ctx()) })
}

// work counts until ctx ends. A count is not cut short by that.
func (f *fleets) work(ctx context.Context, p *program) {
	defer close(p.done)
	for ctx.Err() == nil {
		lease, err := p.client.Acquire(context.WithoutCancel(ctx), Key)
		if err == nil {
			err = errors.Join(f.job(p, lease), lease.Release())
		}
		if err != nil {
			f.t.Errorf("%s: %v", p.name, err)
			return
		}
		p.counted.Add(1)
		<-time.After(rand.N(between))
	}
}

// job counts once. Programs that know the other store have that store's fencing
// numbers.
func (f *fleets) job(p *program, lease *lock.Lease) error {
	from := history.Now()
	if err := errors.Join(f.addOne(), lease.Err()); err != nil {
		return err
	}
	f.counted.Add(1)
	fence, ok := lease.Fence()
	if !ok && !p.old {
		f.t.Errorf("%s has no fencing number", p.name)
	}
	f.spends(from, history.Now(), fence)
	return nil
}

func (f *fleets) addOne() error {
	if f.ended.Load() {
		n := f.memory.Load()
		<-time.After(time.Millisecond)
		f.memory.Store(n + 1)
		return nil
	}
	c := f.pool.Get()
	defer c.Close()
	n, err := redis.Int64(c.Do("GET", counter))
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return err
	}
	<-time.After(time.Millisecond)
	_, err = c.Do("SET", counter, n+1)
	return err
}

// count waits until each client has counted a few times more.
func (f *fleets) count() {
	f.t.Helper()
	var want []int64
	for _, p := range f.programs {
		want = append(want, p.counted.Load()+each)
	}
	for _, l := range f.loops {
		n, err := l.Reach(f.ctx(), 0)
		if err == nil {
			_, err = l.Reach(f.ctx(), n+each)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	for i, p := range f.programs {
		f.await(p.name+" counts on", func() bool { return p.counted.Load() >= want[i] || f.t.Failed() })
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}

func (f *fleets) await(what string, is func() bool) {
	f.t.Helper()
	late := time.After(redistest.Patience)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			f.t.Fatalf("not seen within %v: %s", redistest.Patience, what)
		}
	}
}

// leaves ends a program as a rolling restart does.
func (f *fleets) leaves(name string) {
	f.t.Helper()
	i := slices.IndexFunc(f.programs, func(p *program) bool { return p.name == name })
	p := f.programs[i]
	f.programs = slices.Delete(f.programs, i, i+1)
	p.stop()
	<-p.done
	err := p.client.Close(f.ctx())
	if p.member != nil {
		err = errors.Join(err, p.member.Goodbye(f.ctx()))
	}
	if err != nil {
		f.t.Errorf("%s leaves: %v", name, err)
	}
	f.t.Logf("%s had the lock %d times", name, p.counted.Load())
}

// step takes a step of the migration when its gate opens.
func (f *fleets) step(to migrate.Phase) {
	f.t.Helper()
	o := f.options()
	o.Claims, o.Go, o.Wait = claims, true, redistest.Patience
	take := fleet.CleanUp
	if to != migrate.Clean {
		take, o.To = fleet.Advance, to
	}
	var r *fleet.Report
	f.await("the step to "+to.String(), func() bool {
		var err error
		if r, err = take(f.ctx(), f.pool, o); err != nil {
			f.t.Fatal(err)
		}
		return r.Phase == to && r.Over
	})
}
