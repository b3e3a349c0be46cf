//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
	"github.com/getsetlock/getsetlock/zookeeper/internal/zktest"
)

// Two cuts fit the time of make test; the figures of docs/clocks.md are of ten.
var cuts = flag.Int("cuts", 2, "how often a follower is cut off from its leader")

// span is a time for which a holder believed that it held the lock.
type span struct{ from, until time.Duration }

func elapsed() time.Duration { return lock.Mark(context.Background()).Elapsed }

// spans collects what the holders of one lock believed.
type spans struct {
	mu  sync.Mutex
	all []span
}

func (s *spans) add(from, until time.Duration) {
	s.mu.Lock()
	s.all = append(s.all, span{from, until})
	s.mu.Unlock()
}

// overlaps returns how many pairs of spans overlap.
func (s *spans) overlaps() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.all {
		for _, b := range s.all[:i] {
			if a.from < b.until && b.from < a.until {
				n++
			}
		}
	}
	return n
}

// ends returns when a lease ended, by its own reckoning.
func ends(l *lock.Lease) <-chan time.Duration {
	at := make(chan time.Duration, 1)
	go func() {
		<-l.Done()
		at <- elapsed()
	}()
	return at
}

// A follower is cut off from its leader at random moments and goes on to answer
// its client's reads. The holder learns of its loss before another client, at
// the leader, gets the lock.
func TestHolderBehindACutFollowerLosesInTime(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	leader := e.Leader()
	follower := (leader + 1) % 3
	near := client(t, shortTTL, e.Servers[leader].Addr)
	for range *cuts {
		// Every cut ends the session, so each has a client of its own.
		at := e.Servers[follower].Addr
		far, err := lock.New(backend(t, zookeeper.Config{Chroot: "/locks"}, at), shortTTL)
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, far, "k")
		<-time.After(time.Second + rand.N(2*time.Second)) // the moment of the cut
		ended := ends(lease)
		thaw := e.Freeze(follower, leader)
		next := acquire(t, near, "k")
		granted := elapsed()
		select {
		case at := <-ended:
			if at > granted {
				t.Errorf("the holder learned of its loss %v after the next grant", at-granted)
			}
			t.Logf("%v between the loss and the next grant", granted-at)
		default:
			t.Error("the holder believes that it holds the lock, and so does the next")
		}
		if lease.Err() == nil || !errors.Is(lease.Err(), lock.ErrLost) {
			t.Errorf("the holder's lease: %v", lease.Err())
		}
		release(t, next)
		thaw()
		_ = lease.Release()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_ = far.Close(ctx)
		cancel()
		e.Await()
	}
}

// holdOnce takes the lock for a moment. Some waits are cancelled at random.
func holdOnce(ctx context.Context, c *lock.Client, held *spans) {
	wait, cancel := context.WithTimeout(ctx, rand.N(4*time.Second))
	lease, err := c.Acquire(wait, "k")
	cancel()
	if err != nil {
		return
	}
	from := elapsed()
	select {
	case <-lease.Done():
	case <-time.After(rand.N(100 * time.Millisecond)):
	}
	held.add(from, elapsed())
	_ = lease.Release()
}

// Clients of all servers take one lock in turn while the leader is killed, and
// while followers are cut off. No two believe at the same time that they hold
// it, and nothing is left at the end.
func TestBelievedSpansDoNotOverlapUnderFaults(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	var held spans
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var clients []*lock.Client
	for range 3 {
		c, err := lock.New(backend(t, zookeeper.Config{Chroot: "/locks"}, e.Addrs()...), shortTTL)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		for range 2 {
			work.Go(func() {
				for ctx.Err() == nil {
					holdOnce(ctx, c, &held)
				}
			})
		}
	}
	for round := range 2 {
		<-time.After(2 * time.Second) // clients work undisturbed
		leader := e.Leader()
		if round == 0 {
			e.Servers[leader].Kill()
			<-time.After(3 * time.Second) // the others elect a leader
			e.Servers[leader].Run()
			e.Await()
			continue
		}
		thaw := e.Freeze((leader+1)%3, leader)
		<-time.After(5 * time.Second) // longer than the follower waits
		thaw()
		e.Await()
	}
	<-time.After(2 * time.Second)
	stop()
	work.Wait()
	for _, c := range clients {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		cancel()
	}
	if n := held.overlaps(); n > 0 {
		t.Errorf("%d pairs of %d believed spans overlap", n, len(held.all))
	}
	if len(held.all) < 20 {
		t.Errorf("only %d acquisitions", len(held.all))
	}
	t.Logf("%d acquisitions", len(held.all))
	// A session whose end got no reply expires.
	nothingLeft(t, admin(t, e.Addrs()...))
}

// nothingLeft waits until no node is below the lock k.
func nothingLeft(t *testing.T, conn *zk.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	for {
		children, _, changed, err := conn.ChildrenW("/locks/k")
		if err == zk.ErrNoNode || err == nil && len(children) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("left: %q, %v", children, err)
		}
	}
}

// Two sessions behind a cut follower try three rules of trust: from the last
// read, from the last committed write, and from the write before it. The first
// one overlaps with the next holder. The last one must not.
func TestReadsBehindACutFollowerProveNothing(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	e := zktest.StartEnsemble(t, 3)
	leader := e.Leader()
	follower := (leader + 1) % 3
	near := client(t, shortTTL, e.Servers[leader].Addr)
	late := map[string]int{}
	for range *cuts {
		reader := newWitness(t, "read", timeout, e.Servers[follower].Addr)
		reader.every(timeout/20, func() error {
			there, _, err := reader.conn.Exists(reader.node)
			if !there {
				err = zk.ErrNoNode
			}
			return err
		})
		writer := newWitness(t, "written", timeout, e.Servers[follower].Addr)
		writer.every(timeout/3, func() error {
			_, err := writer.conn.Multi(&zk.CheckVersionRequest{Path: writer.node, Version: -1})
			return err
		})
		<-time.After(time.Second + rand.N(2*time.Second)) // the moment of the cut
		thaw := e.Freeze(follower, leader)
		var work sync.WaitGroup
		for _, w := range []*witness{reader, writer} {
			work.Go(func() { w.next(near) })
		}
		work.Wait()
		for rule, slack := range map[string]time.Duration{"read": reader.granted - reader.last,
			"last write": writer.granted - writer.last, "write before": writer.granted - writer.before} {
			slack -= timeout - timeout/10
			t.Logf("%s: %v between the end of trust and the next grant", rule, slack)
			if slack < 0 {
				late[rule]++
			}
		}
		thaw()
		reader.close()
		writer.close()
		e.Await()
	}
	if late["read"] == 0 {
		t.Error("trust from the last read never overlapped with the next holder: the cut cut nothing")
	}
	if late["write before"] > 0 {
		t.Errorf("trust from the write before the last overlapped %d times", late["write before"])
	}
}

// witness is a bare session that holds a lock and asks for signs of life.
type witness struct {
	t    *testing.T
	key  string
	conn *zk.Conn
	node string
	over chan struct{}
	work sync.WaitGroup

	mu           sync.Mutex
	last, before time.Duration // when the last answered requests were sent
	granted      time.Duration // when the next holder got the lock
}

func newWitness(t *testing.T, key string, timeout time.Duration, server string) *witness {
	t.Helper()
	conn, _, err := zk.Connect([]string{server}, timeout, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"/locks", "/locks/" + key} {
		_, err := conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	node, err := conn.Create("/locks/"+key+"/far-lock-", nil, zk.FlagEphemeralSequential,
		zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return &witness{t: t, key: key, conn: conn, node: node, over: make(chan struct{}), last: elapsed(),
		before: elapsed()}
}

// every asks again and again, and notes when an answered request was sent.
func (w *witness) every(pause time.Duration, ask func() error) {
	w.work.Go(func() {
		for {
			sent := elapsed()
			if ask() == nil {
				w.mu.Lock()
				if w.granted == 0 {
					w.before, w.last = w.last, sent
				}
				w.mu.Unlock()
			}
			select {
			case <-w.over:
				return
			case <-time.After(pause):
			}
		}
	})
}

// next takes the lock after the witness.
func (w *witness) next(near *lock.Client) {
	lease, err := near.Acquire(context.Background(), w.key)
	w.mu.Lock()
	w.granted = elapsed()
	w.mu.Unlock()
	if err != nil {
		w.t.Error(err)
		return
	}
	release(w.t, lease)
}

func (w *witness) close() {
	close(w.over)
	w.conn.Close()
	w.work.Wait()
}
