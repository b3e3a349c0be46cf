package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock"
)

// step is what one contender did or believed, between two readings of the
// clock, in ns.
type step struct {
	client   int
	kind     string // "acquired", "trusted" or "ended"
	from, to int64
	fence    int64
}

type lockState struct {
	holder int
	fence  int64
}

const nobody = -1

// lockModel states that leases exclude each other and that their fencing
// numbers grow.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{holder: nobody} },
	Step: func(state, input, _ any) (bool, any) {
		s, do := state.(lockState), input.(step)
		switch do.kind {
		case "acquired":
			return s.holder == nobody && do.fence > s.fence, lockState{do.client, do.fence}
		case "trusted":
			return s.holder == do.client, s
		}
		return s.holder == do.client, lockState{nobody, s.fence}
	},
}

type history struct {
	mu    sync.Mutex
	steps []step
}

func (h *history) note(s step) {
	h.mu.Lock()
	h.steps = append(h.steps, s)
	h.mu.Unlock()
}

func (h *history) count(kind string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.steps {
		if s.kind == kind {
			n++
		}
	}
	return n
}

// goesOn waits until the lock was acquired twice more.
func (h *history) goesOn(t *testing.T, after string) {
	t.Helper()
	until := time.After(Patience)
	for before := h.count("acquired"); h.count("acquired") < before+2; {
		select {
		case <-until:
			t.Fatalf("after %q no contender got the lock", after)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (h *history) check(t *testing.T) {
	t.Helper()
	var ops []porcupine.Operation
	for _, s := range h.steps {
		ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
	}
	if result := porcupine.CheckOperationsTimeout(lockModel, ops, Patience); result != porcupine.Ok {
		slices.SortFunc(h.steps, func(a, b step) int { return cmp.Compare(a.from, b.from) })
		for _, s := range h.steps {
			t.Logf("%+v", s)
		}
		t.Errorf("no lock explains the history: %s", result)
	}
}

// contend acquires the lock, looks whether the lease is trusted, and releases
// it, until ctx ends. Some of its waits are cancelled at random.
func (h *history) contend(ctx context.Context, c *lock.Client, id int, rng *rand.Rand, began time.Time) {
	now := func() int64 { return int64(time.Since(began)) }
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Millisecond)
		from := now()
		l, err := c.Acquire(wait, "stock")
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				<-time.After(time.Millisecond)
			}
			continue
		}
		fence, _ := l.Fence()
		h.note(step{id, "acquired", from, now(), fence})
		last := now()
		for range rng.IntN(20) {
			<-time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
			from := now()
			if l.Err() != nil {
				break
			}
			last = from
			h.note(step{id, "trusted", from, from, 0})
		}
		_ = l.Release()
		// The lease may have ended at any moment since it was last trusted.
		h.note(step{id, "ended", last, now(), 0})
	}
}

// harms are what happens to a cluster while clients contend for one lock.
func (c *Cluster) harms(t *testing.T, own *clientv3.Client) []struct {
	name string
	do   func()
} {
	call := func(do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("%v", err)
		}
	}
	return []struct {
		name string
		do   func()
	}{
		{"a lease is revoked", func() {
			call(func(ctx context.Context) error {
				leases, err := own.Leases(ctx)
				if err == nil && len(leases.Leases) > 0 {
					_, _ = own.Revoke(ctx, leases.Leases[0].ID) // it may be over already
				}
				return err
			})
		}},
		{"etcd compacts", func() {
			call(func(ctx context.Context) error {
				got, err := own.Get(ctx, "stock")
				if err == nil {
					_, err = own.Compact(ctx, got.Header.Revision)
				}
				return err
			})
		}},
		{"a follower is killed and restarted", func() {
			i := (c.Leader() + 1) % len(c.members)
			c.Stop(i)
			<-time.After(300 * time.Millisecond)
			c.Restart(i)
		}},
		{"the leader is killed and restarted", func() {
			i := c.Leader()
			c.Stop(i)
			<-time.After(1500 * time.Millisecond)
			c.Restart(i)
		}},
		{"the holder's key is deleted", func() {
			call(func(ctx context.Context) error {
				first, err := own.Get(ctx, "stock/", clientv3.WithFirstCreate()...)
				if err == nil && len(first.Kvs) > 0 {
					lease := clientv3.LeaseID(first.Kvs[0].Lease)
					_, _ = own.Revoke(ctx, lease)
				}
				return err
			})
		}},
		{"the quorum is lost for a TTL", func() {
			a, b := c.Leader(), (c.Leader()+1)%len(c.members)
			c.Stop(a)
			c.Stop(b)
			<-time.After(2500 * time.Millisecond)
			var wg sync.WaitGroup
			for _, i := range []int{a, b} {
				wg.Go(func() { c.Restart(i) })
			}
			wg.Wait()
		}},
	}
}

// A key that another client deletes, or a lease that it revokes, ends a lock
// before its holder can know. So these two faults come while nobody is asked
// whether the lease is trusted: see TestRevokedLeaseIsTold.
var rude = []string{"a lease is revoked", "the holder's key is deleted"}

func TestHistoriesUnderFaultsFitALock(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var h history
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	var clients []*lock.Client
	var wg sync.WaitGroup
	for i := range 4 {
		// Each client speaks to one member first, the last to all.
		l, err := lock.New(c.backend(func(cfg *clientv3.Config) {
			if i < 3 {
				cfg.Endpoints = append(cfg.Endpoints[i:i+1:i+1], cfg.Endpoints...)
			}
		}), lock.Config{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, l)
		for g := range 2 {
			id := 2*i + g
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			wg.Go(func() { h.contend(ctx, l, id, rng, began) })
		}
	}
	own := c.Client()
	harms := c.harms(t, own)
	rng := rand.New(rand.NewPCG(seed, 1000))
	rng.Shuffle(len(harms), func(i, j int) { harms[i], harms[j] = harms[j], harms[i] })
	h.goesOn(t, "the start")
	for _, harm := range harms {
		if slices.Contains(rude, harm.name) {
			continue
		}
		t.Log(harm.name)
		harm.do()
		h.goesOn(t, harm.name)
	}
	cancel()
	wg.Wait()
	t.Logf("%d leases, %d looks", h.count("acquired"), h.count("trusted"))
	h.check(t)
	for _, l := range clients {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	c.emptied(t, "stock/")
}

// The same with faults that end a lock before its holder can know. The fencing
// numbers must still grow, the clients must go on, and nothing must be left.
func TestClientsOutliveRevokedLeases(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	var h history
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	var clients []*lock.Client
	var wg sync.WaitGroup
	for i := range 3 {
		l, err := lock.New(c.backend(), lock.Config{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, l)
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		wg.Go(func() { h.contend(ctx, l, i, rng, began) })
	}
	for range 5 {
		for _, harm := range c.harms(t, c.Client()) {
			if slices.Contains(rude, harm.name) {
				harm.do()
				h.goesOn(t, harm.name)
			}
		}
	}
	cancel()
	wg.Wait()
	for _, l := range clients {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	c.emptied(t, "stock/")
	fences := map[int64]bool{}
	for _, s := range h.steps {
		if s.kind == "acquired" {
			if fences[s.fence] {
				t.Errorf("two leases have the fence %d", s.fence)
			}
			fences[s.fence] = true
		}
	}
}

// emptied waits until no key is left below a prefix.
func (c *Cluster) emptied(t *testing.T, prefix string) {
	t.Helper()
	until := time.After(Patience)
	for {
		left := c.Keys(prefix)
		if len(left) == 0 {
			return
		}
		select {
		case <-until:
			t.Errorf("left: %q", left)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestModelRefusesHistoriesThatNoLockHas shows that the check can fail.
func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	for name, steps := range map[string][]step{
		"two holders": {{0, "acquired", 0, 10, 1}, {1, "acquired", 20, 30, 2}, {0, "trusted", 40, 50, 0}},
		"same number": {{0, "acquired", 0, 10, 1}, {0, "ended", 20, 30, 0}, {1, "acquired", 40, 50, 1}},
	} {
		var ops []porcupine.Operation
		for _, s := range steps {
			ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
		}
		if porcupine.CheckOperations(lockModel, ops) {
			t.Errorf("%s: explained", name)
		}
	}
}
