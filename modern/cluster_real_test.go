// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

func openCluster(t *testing.T, c *redistest.Cluster, cfg modern.Config, lc lock.Config) *lock.Client {
	t.Helper()
	return openAt(t, c.URL(), modern.Options{Backend: cfg, Lock: lc})
}

func openAt(t *testing.T, address string, o modern.Options) *lock.Client {
	t.Helper()
	client, err := modern.Open(bg, address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		client.Close(ctx)
	})
	return client
}

// critical is what a key guards: a count that is exact only if no two holders
// overlap, and the last fencing number.
type critical struct {
	inside atomic.Bool
	count  int
	fence  int64
	taken  atomic.Int64
}

func (c *critical) enter(t *testing.T, l *lock.Lease) {
	if c.inside.Swap(true) {
		t.Errorf("%s: two holders", l.Key())
	}
	number, _ := l.Fence()
	if number <= c.fence {
		t.Errorf("%s: number %d after %d", l.Key(), number, c.fence)
	}
	c.fence = number
	c.count++
}

func (c *critical) leave() {
	c.inside.Store(false)
	c.taken.Add(1)
}

// Twelve clients contend for four keys while the two slots of the keys move to
// and fro. No two hold a key together, numbers grow, and leases that are held
// all the time live.
func TestLocksFollowTheirSlots(t *testing.T) {
	onServers(t, redistest.ClusterOptions{Patient: true}, followSlots)
}

// onServers runs a test on a cluster of each server whose ports of the bus can
// be chosen: since Redis 7.
func onServers(t *testing.T, o redistest.ClusterOptions, test func(*testing.T, *redistest.Cluster)) {
	for _, binary := range redistest.Servers(t) {
		if binary.Name >= "redis-7" {
			t.Run(binary.Name, func(t *testing.T) {
				o.Path = binary.Path
				test(t, redistest.StartCluster(t, o))
			})
		}
	}
}

func followSlots(t *testing.T, c *redistest.Cluster) {
	const moves = 60
	tags := []string{"{a}", "{b}"}
	w := contend(t, c, "{a}1", "{b}1", "{a}2", "{b}2")
	for i := range moves {
		tag := tags[i%2]
		slot, from := c.Slot(tag), c.Owner(tag)
		to := c.Primaries[0]
		if to == from {
			to = c.Primaries[1+i%2]
		}
		if i%6 < 4 || !c.MoveAtomically(slot, slot, from, to) {
			c.Move(slot, from, to)
		}
		w.goesOn()
	}
	w.stop()
}

// A node is added, and gets slots of each other one: a quarter of them where
// the servers move them by themselves.
func TestLocksLiveWhileSlotsGoToANewNode(t *testing.T) {
	onServers(t, redistest.ClusterOptions{Patient: true}, rebalance)
}

func rebalance(t *testing.T, c *redistest.Cluster) {
	const slots, quarter, few = 16384, 16384 / 12, 40
	var keys []string
	for i := range c.Primaries {
		first := i * slots / 3
		keys = append(keys, keyIn(c, first, first+few-1), keyIn(c, first+quarter, first+2*quarter))
	}
	w := contend(t, c, keys...)
	added := c.Add()
	for i, from := range c.Primaries[:3] {
		first := i * slots / 3
		if !c.MoveAtomically(first, first+quarter-1, from, added) {
			for slot := first; slot < first+few; slot++ { // one by one, so a few are enough
				c.Move(slot, from, added)
			}
		}
		w.goesOn()
	}
	for i, key := range keys {
		if c.Owner(key) == added != (i%2 == 0) {
			t.Errorf("%s is not where it should be", key)
		}
	}
	w.stop()
}

// keyIn returns a key whose slot is one of these.
func keyIn(c *redistest.Cluster, first, last int) string {
	for n := 0; ; n++ {
		key := "k" + strconv.Itoa(n)
		if slot := c.Slot(key); first <= slot && slot <= last {
			return key
		}
	}
}

// contest is twelve clients that contend for keys, and a client that holds a
// key of each slot all the time.
type contest struct {
	*testing.T
	guarded map[string]*critical
	held    []*lock.Lease
	total   atomic.Int64
	end     context.CancelFunc
	running sync.WaitGroup
}

func contend(t *testing.T, c *redistest.Cluster, keys ...string) *contest {
	w := &contest{T: t, guarded: map[string]*critical{}}
	var ctx context.Context
	ctx, w.end = context.WithCancel(bg)
	// Servers hold back writes at the end of an atomic move.
	cfg := modern.Config{Fence: true, Timeout: redistest.Patience / 4}
	lc := lock.Config{TTL: redistest.Patience, RenewEvery: 50 * time.Millisecond}
	holder := openCluster(t, c, cfg, lc)
	for _, key := range keys {
		w.guarded[key] = &critical{}
		held := "{" + key + "}held"
		if strings.HasPrefix(key, "{") {
			held = key + "held"
		}
		w.held = append(w.held, acquire(t, holder, held))
	}
	for i := range 12 {
		client, key := openCluster(t, c, cfg, lc), keys[i%len(keys)]
		w.running.Go(func() { w.take(ctx, client, key) })
	}
	return w
}

func (w *contest) take(ctx context.Context, client *lock.Client, key string) {
	g := w.guarded[key]
	for {
		l, err := client.Acquire(ctx, key)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				w.Errorf("%s: %v", key, err)
			}
			return
		}
		g.enter(w.T, l)
		w.total.Add(1)
		g.leave()
		if err := l.Release(); err != nil {
			w.Errorf("%s: release: %v", key, err)
		}
	}
}

// goesOn waits until each key was released five times more.
func (w *contest) goesOn() {
	w.Helper()
	end := time.Now().Add(2 * redistest.Patience)
	for _, g := range w.guarded {
		for want := g.taken.Load() + 5; g.taken.Load() < want; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				w.Fatal("nobody acquires any more")
			}
		}
	}
}

// stop ends the contest and compares the counts.
func (w *contest) stop() {
	w.Helper()
	w.end()
	w.running.Wait()
	sum := 0
	for _, g := range w.guarded {
		sum += g.count
	}
	if int64(sum) != w.total.Load() {
		w.Errorf("counted %d of %d", sum, w.total.Load())
	}
	for _, l := range w.held {
		if err := l.Release(); err != nil {
			w.Errorf("%s, held all the time: %v", l.Key(), err)
		}
	}
}

// All nodes end, and come back with their data. No lease is lost meanwhile, and
// a client that waits goes on waiting.
func TestLeasesOutliveARestartOfAllNodes(t *testing.T) {
	onServers(t, redistest.ClusterOptions{}, restart)
}

func restart(t *testing.T, c *redistest.Cluster) {
	keys := one(t, c)
	var renewed, failed counted
	lc := lock.Config{TTL: 4 * redistest.Patience, RenewEvery: 50 * time.Millisecond,
		Hooks: lock.Hooks{Renewed: renewed.add, RenewFailed: failed.add}}
	client := openCluster(t, c, modern.Config{Fence: true}, lc)
	waiting := make(chan struct{}, len(keys))
	other := openCluster(t, c, modern.Config{Fence: true}, lock.Config{TTL: redistest.Patience,
		Hooks: lock.Hooks{Waiting: func(lock.Event) { waiting <- struct{}{} }}})
	var held []*lock.Lease
	var next []<-chan lock.Result
	for _, key := range keys {
		held, next = append(held, acquire(t, client, key)), append(next, other.Request(bg, key))
		<-waiting
	}
	c.Kill()
	failed.await(t, 1, keys...)
	c.Start()
	renewed.await(t, 1, keys...)
	for i, l := range held {
		select {
		case r := <-next[i]:
			t.Fatalf("a second holder: %+v", r)
		default:
		}
		before, _ := l.Fence()
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		r := <-next[i]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if after, _ := r.Lease.Fence(); after <= before {
			t.Errorf("number %d after %d", after, before)
		}
		if err := r.Lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A key is on the node to which its slot is moving, and the slot has not
// arrived. Its lease is renewed and released there, and other clients wait.
func TestLeaseLivesWhileItsSlotMoves(t *testing.T) {
	onServers(t, redistest.ClusterOptions{Patient: true}, liveOn)
}

func liveOn(t *testing.T, c *redistest.Cluster) {
	for _, cfg := range []modern.Config{{}, {Fence: true}, {Fair: true}} {
		client, other := openCluster(t, c, cfg, lock.Config{}), openCluster(t, c, cfg, lock.Config{})
		moved, stays := acquire(t, client, "{a}moved"), acquire(t, client, "{a}stays")
		slot, from := c.Slot("{a}"), c.Owner("{a}")
		to := another(c, "{a}")
		c.Begin(slot, from, to)
		c.Carry(from, to, moved.Key())
		for _, l := range []*lock.Lease{moved, stays} {
			if err := l.Renew(bg); err != nil {
				t.Errorf("%+v: renewal of %s: %v", cfg, l.Key(), err)
			}
			if l, err := other.TryAcquire(bg, l.Key()); err == nil {
				t.Errorf("%+v: a second holder of %s", cfg, l.Key())
			}
		}
		next := other.Request(bg, moved.Key())
		for _, l := range []*lock.Lease{moved, stays} {
			if err := l.Release(); err != nil {
				t.Errorf("%+v: release of %s: %v", cfg, l.Key(), err)
			}
		}
		c.Finish(slot, from, to)
		if n := to.Do("EXISTS", stays.Key()); n != int64(0) {
			t.Errorf("%+v: %s was not released", cfg, stays.Key())
		}
		got := <-next
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		c.Begin(slot, to, from) // the place of this one in the queue stays where it was
		c.Carry(to, from, moved.Key())
		if err := got.Lease.Release(); err != nil {
			t.Errorf("%+v: release of a key that was waited for: %v", cfg, err)
		}
		c.Finish(slot, to, from)
		if n := from.Do("EXISTS", moved.Key()); n != int64(0) {
			t.Errorf("%+v: %s was not released", cfg, moved.Key())
		}
	}
}

// The key is taken, and then the slot moves before its replicas are asked. That
// redirection does not begin the attempt anew: the key must be given back.
func TestRedirectedWaitLeavesNoKey(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	from := c.Owner("k")
	wire := from.Wire(redistest.Rule{Command: "SET",
		When: func(cmd redistest.Command) bool { return strings.HasPrefix(cmd[1], "gsl:wait:") },
		Do:   redistest.Answer("MOVED 7629 127.0.0.1:1")})
	b := newCluster(t, c, modern.Config{Replicas: 1}, redisconn.Options{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == from.Addr() {
				return wire.Dial(ctx)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}})
	_, err := b.Contract().Try(bg, "k", time.Hour)
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) {
		t.Fatalf("the attempt: %v", err)
	}
	if err := unsure.Grant.Release(bg); err != nil {
		t.Error(err)
	}
	if n := from.Do("EXISTS", "k"); n != int64(0) {
		t.Error("the key is still there")
	}
}

// wired is a cluster behind wires, and a way to it through them.
func wired(t *testing.T) (*redistest.Cluster, map[string]*redistest.Wire, redisconn.Options) {
	t.Helper()
	c, wires := redistest.StartCluster(t, redistest.ClusterOptions{}), map[string]*redistest.Wire{}
	for _, s := range c.Primaries {
		wires[s.Addr()] = s.Wire()
	}
	return c, wires, redisconn.Options{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return wires[addr].Dial(ctx)
		}}
}

// another returns a primary that does not serve the slot of key.
func another(c *redistest.Cluster, key string) *redistest.Server {
	if c.Owner(key) == c.Primaries[0] {
		return c.Primaries[1]
	}
	return c.Primaries[0]
}

// heldBack makes an attempt whose command is held back at the wire until the
// gate opens, and returns its grant.
func heldBack(t *testing.T, w *redistest.Wire, command string, hold func(*redistest.Gate) redistest.Action,
	try func(context.Context) (backend.Grant, error)) (backend.Grant, *redistest.Gate) {
	t.Helper()
	gate := redistest.NewGate()
	w.Fault(redistest.Rule{Command: command, Do: hold(gate)})
	ctx, cancel := context.WithCancel(bg)
	go func() { <-gate.Reached(); cancel() }()
	_, err := try(ctx)
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) {
		t.Fatalf("the attempt: %v", err)
	}
	return unsure.Grant, gate
}

// The outcome of an attempt is unknown, and then the slot moves: with the key,
// or before the attempt arrives. The undo is certain all the same.
func TestUndoFollowsTheSlot(t *testing.T) {
	c, wires, through := wired(t)
	for _, hold := range []func(*redistest.Gate) redistest.Action{redistest.HoldRequest,
		redistest.HoldReply} {
		b := newCluster(t, c, modern.Config{Timeout: redistest.Patience}, through)
		from, to := c.Owner("k"), another(c, "k")
		g, gate := heldBack(t, wires[from.Addr()], "SET", hold,
			func(ctx context.Context) (backend.Grant, error) { return b.Contract().Try(ctx, "k", time.Hour) })
		c.Move(c.Slot("k"), from, to)
		released := make(chan error, 1)
		go func() { released <- g.Release(bg) }()
		gate.Open()
		if err := <-released; err != nil {
			t.Errorf("the undo: %v", err)
		}
		if n := to.Do("EXISTS", "k"); n != int64(0) {
			t.Error("the key of the attempt is still there")
		}
	}
}

// The same for an attempt with a place in the queue, while only the key has
// moved: no node has all keys of the queue's scripts. An undo that took nothing
// cannot leave the queue then, and says so by an error that passes.
func TestUndoOfAPlaceFollowsTheKey(t *testing.T) {
	c, wires, through := wired(t)
	for name, hold := range map[string]func(*redistest.Gate) redistest.Action{
		"not taken": redistest.HoldRequest, "taken": redistest.HoldReply} {
		b := newCluster(t, c, modern.Config{Fence: true, Timeout: redistest.Patience}, through)
		enter := func(key string) backend.Place {
			p := enter(t, b, key)
			return p
		}
		// The server learns the script, and makes a counter.
		first, err := enter("{k}first").Try(bg, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		slot, from, to := c.Slot("k"), c.Owner("k"), another(c, "k")
		p := enter("k")
		g, gate := heldBack(t, wires[from.Addr()], "EVALSHA", hold,
			func(ctx context.Context) (backend.Grant, error) { return p.Try(ctx, time.Hour) })
		c.Begin(slot, from, to)
		c.Carry(from, to, "k")
		released := make(chan error, 1)
		go func() { released <- g.Release(bg) }()
		gate.Open()
		err = <-released
		var judged interface{ Passing() bool }
		passes := errors.As(err, &judged) && judged.Passing()
		if took := name == "taken"; took && err != nil || !took && !passes {
			t.Errorf("%s: the undo while the slot moves: %v", name, err)
		}
		c.Finish(slot, from, to)
		if n := to.Do("EXISTS", "k"); n != int64(0) {
			t.Errorf("%s: the key is still there", name)
		}
		if err := g.Release(bg); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: the undo after that: %v", name, err)
		}
		if err := first.Release(bg); err != nil {
			t.Error(err)
		}
		if keys := to.Do("KEYS", "*{k}*"); len(keys.([]any)) > 1 { // the counter stays
			t.Errorf("%s: left behind: %q", name, keys)
		}
	}
}

func newCluster(t *testing.T, c *redistest.Cluster, cfg modern.Config, o redisconn.Options) *modern.Backend {
	t.Helper()
	a, err := redisconn.Parse(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := a.Nodes(o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := modern.NewCluster(nodes, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A slot moves while two processes wait for a key in it, one without a place in
// the queue. Nobody sends anything to the old primary. Both are woken, to wait
// at the new one.
func TestWaitersAreWokenWhenTheSlotMoves(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	cfg := modern.Config{Timeout: redistest.Patience}
	holder, waiter := newCluster(t, c, cfg, redisconn.Options{}), newCluster(t, c, cfg, redisconn.Options{})
	if _, err := holder.Contract().Try(bg, "{a}held", time.Hour); err != nil {
		t.Fatal(err)
	}
	place, watch := make(chan struct{}), make(chan struct{})
	// The key does not exist: no server tells that its slot moves. This
	// comes first, since its connection brings the calls of places too.
	_, free, err := waiter.Contract().(backend.Waker).Await(bg, "{a}free",
		sync.OnceFunc(func() { close(watch) }))
	if err != nil || !free {
		t.Fatal(free, err)
	}
	var second backend.Place
	for range 2 {
		p := enter(t, waiter, "{a}held")
		if _, err := p.Try(bg, time.Hour); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		second = p
	}
	if _, _, err := second.Await(bg, sync.OnceFunc(func() { close(place) })); err != nil {
		t.Fatal(err)
	}
	from := c.Owner("{a}")
	to := another(c, "{a}")
	c.Move(c.Slot("{a}"), from, to)
	for what, woken := range map[string]chan struct{}{"place": place, "watch": watch} {
		select {
		case <-woken:
		case <-time.After(redistest.Patience / 4):
			t.Errorf("the %s was not woken", what)
		}
	}
}

// A primary dies, and its replica is promoted. A lease that the replica has
// goes on, and the next holder gets the key after it.
func TestLeaseOutlivesItsPrimary(t *testing.T) {
	onServers(t, redistest.ClusterOptions{Replicas: true}, outlive)
}

func outlive(t *testing.T, c *redistest.Cluster) {
	client := openCluster(t, c, modern.Config{Fence: true, Replicas: 1, ReplicaWait: redistest.Patience / 4,
		Timeout: redistest.Patience / 2}, lock.Config{TTL: redistest.Patience})
	waiting := make(chan struct{}, 1)
	other := openCluster(t, c, modern.Config{Fence: true}, lock.Config{TTL: redistest.Patience,
		Hooks: lock.Hooks{Waiting: func(lock.Event) { waiting <- struct{}{} }}})
	l := acquire(t, client, "k")
	next := other.Request(bg, "k")
	<-waiting
	dead := c.Owner("k")
	dead.Kill()
	c.AwaitOwner("k", dead)
	if err := l.Renew(bg); err != nil {
		t.Fatalf("the lease that the replica has: %v", err)
	}
	select {
	case r := <-next:
		t.Fatalf("a second holder: %+v", r)
	default:
	}
	before, _ := l.Fence()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	r := <-next
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if after, _ := r.Lease.Fence(); after <= before {
		t.Errorf("number %d after %d", after, before)
	}
	if err := r.Lease.Release(); err != nil {
		t.Error(err)
	}
}

// one returns a key of each primary's slots.
func one(t *testing.T, c *redistest.Cluster) []string {
	t.Helper()
	keys := make([]string, len(c.Primaries))
	for i, s := range c.Primaries {
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			if c.Owner(key) == s {
				keys[i] = key
			}
		}
		if keys[i] == "" {
			t.Fatal("a primary without a key")
		}
	}
	return keys
}

// counted counts events by key, and awaits more of them.
type counted struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) add(e lock.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[e.Key]++
}

func (c *counted) of(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[key]
}

func (c *counted) await(t *testing.T, more int, keys ...string) {
	t.Helper()
	end := time.Now().Add(redistest.Patience / 2)
	for _, key := range keys {
		for want := c.of(key) + more; c.of(key) < want; <-time.After(time.Millisecond) {
			if t.Failed() || time.Now().After(end) {
				t.Fatalf("%s: %d events, not %d", key, c.of(key), want)
			}
		}
	}
}

// The cluster is down for a while, since one primary does not answer. All
// renewals fail meanwhile, and no lease is lost.
func TestLeasesOutliveAClusterThatIsDown(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	keys := one(t, c)
	var renewed, failed counted
	client := openCluster(t, c, modern.Config{}, lock.Config{TTL: redistest.Patience,
		RenewEvery: 50 * time.Millisecond, Hooks: lock.Hooks{Renewed: renewed.add, RenewFailed: failed.add,
			Lost: func(e lock.Event) { t.Errorf("%s is lost", e.Key) }}})
	var held []*lock.Lease
	for _, key := range keys {
		held = append(held, acquire(t, client, key))
	}
	c.Primaries[0].Pause()
	failed.await(t, 2, keys[1:]...)
	c.Primaries[0].Continue()
	renewed.await(t, 2, keys...)
	for _, l := range held {
		if err := l.Release(); err != nil {
			t.Errorf("%s: %v", l.Key(), err)
		}
	}
}

// One primary does not answer for a long time. Renewals and acquisitions at the
// others go on: none waits for the reply of the one.
func TestStoppedPrimaryDisturbsNoOther(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, s := range c.Primaries {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	keys := one(t, c)
	var renewed counted
	client := openCluster(t, c, modern.Config{Timeout: redistest.Patience}, lock.Config{
		TTL: 2 * redistest.Patience, RenewEvery: time.Second, Hooks: lock.Hooks{Renewed: renewed.add}})
	for _, key := range keys { // at the same time, so that they are due for renewal together
		acquire(t, client, key)
	}
	renewed.await(t, 2, keys...)
	c.Primaries[0].Pause()
	for range 200 {
		for _, key := range keys[1:] {
			if err := acquire(t, client, "{"+key+"}other").Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	renewed.await(t, 5, keys[1:]...)
	c.Primaries[0].Continue()
	renewed.await(t, 2, keys...)
}

// A user made by the page's line can take, renew and release, wait, draw
// numbers and follow a slot that is moving. No node's log shows a refusal.
func TestUserOfTheClusterPageLacksNoRight(t *testing.T) {
	raw, err := os.ReadFile("../docs/guide/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	found := userLine.FindStringSubmatch(string(raw))
	if found == nil {
		t.Fatal("the page shows no user")
	}
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, s := range c.Primaries {
		s.User("app", "pw", strings.Fields(found[1])...)
	}
	for _, cfg := range []modern.Config{{}, {Fence: true}, {Fair: true}} {
		waiting := make(chan struct{}, 1)
		open := func() *lock.Client {
			return openAt(t, c.URLFor("app:pw@"), modern.Options{Backend: cfg, Lock: lock.Config{
				Hooks: lock.Hooks{Waiting: func(lock.Event) { waiting <- struct{}{} }}}})
		}
		first := acquire(t, open(), "app:{a}k")
		next := open().Request(bg, first.Key())
		<-waiting
		slot, from := c.Slot("{a}"), c.Owner("{a}")
		to := another(c, "{a}")
		c.Begin(slot, from, to)
		c.Carry(from, to, first.Key())
		if err := first.Renew(bg); err != nil {
			t.Error(err)
		}
		c.Finish(slot, from, to)
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		r := <-next
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if err := r.Lease.Release(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range c.Primaries {
		if refused := s.Do("ACL", "LOG").([]any); len(refused) > 0 {
			t.Errorf("refused: %q", refused)
		}
	}
}

// The nodes name their ports of TLS to a connection with TLS, also where they
// redirect it.
func TestClusterIsReachedByTLS(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{TLS: true})
	client := openAt(t, c.URL(), modern.Options{Redis: redisconn.Options{CACert: c.CACert()},
		Lock: lock.Config{TTL: 10 * time.Second}}) // Renew tries until the lease ends
	for i, key := range one(t, c) {
		l := acquire(t, client, key)
		c.Move(c.Slot(key), c.Primaries[i], c.Primaries[(i+1)%len(c.Primaries)])
		if err := l.Renew(bg); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestClusterPassesTheKit(t *testing.T) {
	for name, cfg := range map[string]modern.Config{
		"plain": {}, "fence": {Fence: true}, "fair": {Fair: true},
	} {
		cfg.Timeout = time.Minute
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, redistest.ClusterOptions{})
			locktest.Run(t, locktest.Traits{}, func(t *testing.T) *locktest.World {
				for _, s := range c.Primaries {
					s.Do("FLUSHALL")
				}
				return &locktest.World{
					RealTime:  true,
					Backend:   func() backend.Store { return newCluster(t, c, cfg, redisconn.Options{}) },
					Pass:      pass(t, c.Owner("pass")),
					TTL:       2 * time.Second,
					FreeAfter: 50 * time.Millisecond,
					Seize:     func(key string) { c.Owner(key).Do("SET", key, "thief", "PX", 60000) },
				}
			})
		})
	}
}
