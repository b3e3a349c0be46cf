// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// long is a TTL that no test outlives.
const long = 5 * time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// locks returns a lock.Client, and the Backend below it.
func (c *Cluster) locks(t *testing.T, cfg lock.Config, change ...func(*clientv3.Config)) (*lock.Client,
	*etcd.Backend) {
	t.Helper()
	b := c.backend(change...)
	l, err := lock.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l, b
}

// call makes one call whose error fails the test.
func call(t *testing.T, do func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Error(err)
	}
}

func acquire(t *testing.T, c *lock.Client, name string) *lock.Lease {
	t.Helper()
	l, err := c.Acquire(testContext(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *lock.Lease) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// await waits for a condition on the cluster.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	until := time.After(Patience)
	for !is() {
		select {
		case <-until:
			t.Fatalf("%s did not come", what)
		case <-time.After(5 * time.Millisecond):
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

// counted counts a client's calls, its logins, the streams for its signs of
// life and the messages on them, and the answers that tell a version.
type counted struct{ puts, reads, logins, streams, signs, versions atomic.Int64 }

func (n *counted) into(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any,
			conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if txn, ok := in.(*etcdserverpb.TxnRequest); ok && writes(txn) {
				n.puts.Add(1)
			} else if _, login := in.(*etcdserverpb.AuthenticateRequest); login {
				n.logins.Add(1)
			} else if _, once := in.(*etcdserverpb.StatusRequest); !once {
				n.reads.Add(1)
			}
			err := next(ctx, method, in, out, conn, opts...)
			if _, status := out.(*etcdserverpb.StatusResponse); status && err == nil {
				n.versions.Add(1)
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (
			grpc.ClientStream, error) {
			stream, err := next(ctx, desc, conn, method, opts...)
			if err == nil && strings.HasSuffix(method, "LeaseKeepAlive") {
				n.streams.Add(1)
				stream = countedStream{stream, n}
			}
			return stream, err
		}))
}

type countedStream struct {
	grpc.ClientStream
	n *counted
}

func (s countedStream) SendMsg(m any) error {
	s.n.signs.Add(1)
	return s.ClientStream.SendMsg(m)
}

func TestRefusedTryIsAReadTheNextTime(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	holder, _ := c.locks(t, lock.Config{TTL: long})
	defer release(t, acquire(t, holder, "stock"))
	var n counted
	other, _ := c.locks(t, lock.Config{TTL: long}, n.into)
	for range 5 {
		if _, err := other.TryAcquire(testContext(t), "stock"); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
	}
	// The grant of the lease is a read to this count.
	if puts, reads := n.puts.Load(), n.reads.Load(); puts != 1 || reads != 5 {
		t.Errorf("%d writing transactions, %d other calls", puts, reads)
	}
	const many = 50
	before := c.members[0].Server.AppliedIndex()
	for range many {
		if _, err := other.TryAcquire(testContext(t), "stock"); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
	}
	// etcd itself may write something meanwhile.
	if entries := c.members[0].Server.AppliedIndex() - before; entries >= many/2 {
		t.Errorf("%d refused attempts made %d Raft entries", many, entries)
	}
}

func TestManyLeasesAreRenewedByOneMessage(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	var n counted
	var renewed atomic.Int64
	locks, _ := c.locks(t, lock.Config{TTL: 3 * time.Second,
		Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}}, n.into)
	const many = 300
	var leases []*lock.Lease
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			l, err := locks.Acquire(testContext(t), "stock"+string(rune('a'+i)))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			leases = append(leases, l)
			mu.Unlock()
		})
	}
	wg.Wait()
	renewed.Store(0)
	before := n.signs.Load()
	await(t, "two renewals of each lease", func() bool { return renewed.Load() >= 2*many })
	if signs := n.signs.Load() - before; signs > many/4 {
		t.Errorf("%d signs of life for %d renewals", signs, renewed.Load())
	}
	for _, l := range leases {
		release(t, l)
	}
}

func TestRevokedLeaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	l := acquire(t, locks, "stock")
	own := c.Client()
	leases, err := own.Leases(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Revoke(testContext(t), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done(): // long before the next renewal
	case <-time.After(Patience):
		t.Fatal("the holder was not told")
	}
	if err := l.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	release(t, acquire(t, locks, "stock")) // by a new lease
}

// A waiter whose own lease ends must not wait for ever, nor believe that it
// holds the lock: it queues anew.
func TestWaiterOutlivesItsSession(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	holder, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, holder, "stock")
	waiter, _ := c.locks(t, lock.Config{TTL: long})
	got := waiter.Request(testContext(t), "stock")
	await(t, "the waiter's key", func() bool { return len(c.Keys("stock/")) == 2 })
	own := c.Client()
	before, err := own.Get(testContext(t), "stock/", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Revoke(testContext(t), clientv3.LeaseID(before.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	await(t, "a new key of the waiter", func() bool {
		now, err := own.Get(testContext(t), "stock/", clientv3.WithLastCreate()...)
		return err == nil && len(now.Kvs) == 1 && now.Kvs[0].Lease != before.Kvs[0].Lease &&
			now.Kvs[0].CreateRevision > before.Kvs[0].CreateRevision
	})
	release(t, held)
	if r := <-got; r.Err != nil {
		t.Error(r.Err)
	} else {
		release(t, r.Lease)
	}
}

// standing returns a place in the queue of a held lock, with its key.
func standing(t *testing.T, c *Cluster) backend.Place {
	t.Helper()
	holder, b := c.backend(), c.backend()
	t.Cleanup(func() {
		if err := errors.Join(holder.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := holder.Contract().Try(testContext(t), "stock", long); err != nil {
		t.Fatal(err)
	}
	p, err := b.Contract().(backend.Queuer).Enter(testContext(t), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Try(testContext(t), long); !errors.Is(err, lock.ErrHeld) {
		t.Fatal(err)
	}
	return p
}

func TestLeavingDeletesTheKeyOfThePlace(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	p := standing(t, c)
	if n := len(c.Keys("stock/")); n != 2 {
		t.Fatalf("%d keys", n)
	}
	if err := p.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if left := c.Keys("stock/"); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

func TestPlaceIsWokenByTheLossOfItsOwnKey(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	p, own := standing(t, c), c.Client()
	woken := make(chan struct{}, 1)
	cancel, _, err := p.Await(testContext(t), func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	last, err := own.Get(testContext(t), "stock/", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Delete(testContext(t), string(last.Kvs[0].Key)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Error("the waiter was not woken")
	}
}

// Waiters in a queue: each release wakes one, also after etcd has compacted the
// revision that the watches began with.
func TestReleaseWakesTheNextWaiter(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	holder, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, holder, "stock")
	const many = 4
	var n [many]counted
	var results []<-chan lock.Result
	for i := range many {
		waiter, _ := c.locks(t, lock.Config{TTL: long}, n[i].into)
		results = append(results, waiter.Request(testContext(t), "stock"))
		await(t, "the waiter's key", func() bool { return len(c.Keys("stock/")) == i+2 })
	}
	own := c.Client()
	now, err := own.Get(testContext(t), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Compact(testContext(t), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
	release(t, held)
	var last int64
	for _, result := range results {
		r := <-result
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		fence, ok := r.Lease.Fence()
		if !ok || fence <= last {
			t.Errorf("fence %d after %d", fence, last)
		}
		last = fence
		release(t, r.Lease)
	}
}

func TestRandomCancellationsLeaveNothing(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	ctx := testContext(t)
	var clients []*lock.Client
	for range 3 {
		l, _ := c.locks(t, lock.Config{TTL: long, LocalHandOvers: -1})
		clients = append(clients, l)
	}
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			<-time.After(time.Duration(rng.IntN(1500)) * time.Millisecond)
			wait, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(40))*time.Millisecond)
			defer cancel()
			name := "stock" + string(rune('a'+i%20))
			if l, err := clients[i%3].Acquire(wait, name); err == nil {
				<-time.After(time.Duration(rng.IntN(3)) * time.Millisecond)
				release(t, l)
			}
		})
	}
	wg.Wait()
	c.emptied(t, "stock") // while the sessions live on
}

// noSpace gives a member a database that is soon full.
func noSpace(cfg *embed.Config) { cfg.QuotaBackendBytes = 256 << 10 }

// etcd carries out the write that fills its database, and answers that there is
// no space.
func TestWriteThatFillsTheDatabaseIsUndone(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	var full atomic.Bool
	b := c.backend(func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context,
			method string, in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
			opts ...grpc.CallOption) error {
			err := next(ctx, method, in, out, conn, opts...)
			txn, ok := in.(*etcdserverpb.TxnRequest)
			if ok && full.Load() && txn.Success[0].GetRequestPut() != nil {
				return rpctypes.ErrGRPCNoSpace
			}
			return err
		}))
	})
	place, err := b.Contract().(backend.Queuer).Enter(testContext(t), "stock")
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	for what, try := range map[string]func(context.Context) (backend.Grant, error){
		"an attempt": func(ctx context.Context) (backend.Grant, error) {
			return b.Contract().Try(ctx, "stock", long)
		},
		"a waiter": func(ctx context.Context) (backend.Grant, error) { return place.Try(ctx, long) },
	} {
		_, err := try(testContext(t))
		var unsure *backend.UnsureError
		if !errors.Is(err, rpctypes.ErrNoSpace) || errors.As(err, &unsure) {
			t.Errorf("%s: %v", what, err)
		}
		if left := c.Keys("stock/"); len(left) > 0 {
			t.Errorf("%s left %q", what, left)
		}
	}
	full.Store(false)
	if _, err := place.Try(testContext(t), long); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestFullDatabaseKeepsHeldLocks(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, noSpace)
	locks, _ := c.locks(t, lock.Config{TTL: 3 * time.Second})
	kept, given := acquire(t, locks, "kept"), acquire(t, locks, "given")
	own := c.Client()
	var err error
	for err == nil {
		_, err = own.Put(testContext(t), "ballast", strings.Repeat("x", 50<<10))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, err := locks.TryAcquire(testContext(t), "new"); !errors.Is(err, rpctypes.ErrNoSpace) ||
		!strings.Contains(err.Error(), "disarm") {
		t.Errorf("a new lock: %v", err)
	}
	if err := kept.Renew(testContext(t)); err != nil {
		t.Errorf("Renew: %v", err)
	}
	release(t, given)
	release(t, kept)
	if left := c.Keys("given/"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestPathPrefixIsNamedInTheRefusal(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	defer release(t, acquire(t, locks, "stock/1"))
	l, err := locks.TryAcquire(testContext(t), "stock")
	if err == nil {
		release(t, l) // the client's Close waits for it
		t.Fatal("the key was granted")
	}
	if !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), `"stock/1"`) {
		t.Error(err)
	}
	// The library's own mutex is refused by it too.
	session, err := concurrency.NewSession(c.Client())
	if err != nil {
		t.Fatal(err)
	}
	err = concurrency.NewMutex(session, "stock").TryLock(testContext(t))
	if !errors.Is(err, concurrency.ErrLocked) {
		t.Error(err)
	}
	if _, err := locks.TryAcquire(testContext(t), "stock/"); err == nil || errors.Is(err, lock.ErrHeld) {
		t.Errorf("a name that ends with a slash: %v", err)
	}
}

// Every library takes each key below a name for a lock.
func TestKeyThatIsNoLocksIsNamed(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	if _, err := c.Client().Put(testContext(t), "stock/notes", "hello"); err != nil {
		t.Fatal(err)
	}
	locks, b := c.locks(t, lock.Config{TTL: long})
	place, err := b.Contract().(backend.Queuer).Enter(testContext(t), "stock")
	if err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"an attempt": func() error { _, err := locks.TryAcquire(testContext(t), "stock"); return err },
		"a waiter":   func() error { _, err := place.Try(testContext(t), long); return err },
	} {
		if err := try(); !errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(),
			`through the key "stock/notes", which no lock has written: delete it`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := place.Leave(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestFenceRefusesALateWriteInATransaction(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	own := c.Client()
	locks, b := c.locks(t, lock.Config{TTL: long})
	l := acquire(t, locks, "stock")
	fence, _ := l.Fence()
	guard := b.Held(fence)
	write := func(value string) bool {
		done, err := own.Txn(testContext(t)).If(guard).Then(clientv3.OpPut("goods", value)).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return done.Succeeded
	}
	if !write("41") {
		t.Error("the holder's write was refused")
	}
	release(t, l)
	if write("40") {
		t.Error("a write after the release was accepted")
	}
	guard = b.Held(fence)
	if write("39") {
		t.Error("a write for a number that holds nothing was accepted")
	}
}

// A process that dies leaves its key to its lease.
func TestKeysOfADeadProcessEndWithItsLease(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	client := c.Client()
	b, err := etcd.New(client, etcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Contract().Try(testContext(t), "stock", etcd.LeastTTL); err != nil {
		t.Fatal(err)
	}
	_ = client.Close() // nothing of this process reaches etcd any more
	other, _ := c.locks(t, lock.Config{TTL: long})
	release(t, acquire(t, other, "stock"))
}

func TestCloseKeepsHeldKeysAndRevokesIdleSessions(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	own := c.Client()
	for _, holds := range []bool{true, false} {
		b := c.backend()
		g, err := b.Contract().Try(testContext(t), "stock", long)
		if err != nil {
			t.Fatal(err)
		}
		if !holds {
			if err := g.Release(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		leases, err := own.Leases(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(leases.Leases); (n == 1) != holds {
			t.Errorf("held %t: %d leases after Close", holds, n)
		}
		for _, l := range leases.Leases {
			_, _ = own.Revoke(testContext(t), l.ID)
		}
	}
}

func TestIdleSessionIsRevoked(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: etcd.LeastTTL})
	release(t, acquire(t, locks, "stock"))
	own := c.Client()
	await(t, "the revocation", func() bool {
		leases, err := own.Leases(testContext(t))
		return err == nil && len(leases.Leases) == 0
	})
	release(t, acquire(t, locks, "stock")) // with a new one
}

func TestInspectNamesTheHolderAndFreesByForce(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	if info, err := locks.Inspect(testContext(t), "stock"); err != nil || info.Held != nil {
		t.Errorf("a free name: %+v, %v", info, err)
	}
	l := acquire(t, locks, "stock")
	info, err := locks.Inspect(testContext(t), "stock")
	if err != nil || !errors.Is(info.Held, lock.ErrHeld) {
		t.Fatalf("%+v, %v", info, err)
	}
	if done, err := locks.ForceRelease(testContext(t), "stock", "1 stock/else"); done || err != nil {
		t.Errorf("another value: %t, %v", done, err)
	}
	if done, err := locks.ForceRelease(testContext(t), "stock", info.Value); !done || err != nil {
		t.Errorf("%t, %v", done, err)
	}
	<-l.Done()
	if err := l.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, err := etcd.Open(testContext(t), c.Endpoints(), etcd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, locks, "stock"))
	if err := locks.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	_, err = etcd.Open(testContext(t), []string{"127.0.0.1:1"}, etcd.Options{
		Client: clientv3.Config{Logger: zap.NewNop()}, Backend: etcd.Config{Timeout: time.Second}})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
	if _, err := etcd.Open(testContext(t), c.Endpoints(), etcd.Options{
		Lock: lock.Config{TTL: time.Second}}); err == nil || !strings.Contains(err.Error(), "at least 2s") {
		t.Errorf("a TTL below etcd's: %v", err)
	}
}

// A key that was deleted and written anew is not this grant's, though it has
// the same name.
func TestReleaseSparesANewerKeyOfTheSameName(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	b, own := c.backend(), c.Client()
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	key := c.Keys("stock/")[0]
	_, deleted := own.Delete(testContext(t), key)
	_, written := own.Put(testContext(t), key, "newer")
	if err := errors.Join(deleted, written); err != nil {
		t.Fatal(err)
	}
	if err := g.Release(testContext(t)); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	if left := c.Keys("stock/"); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
