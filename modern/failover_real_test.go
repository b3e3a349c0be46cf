// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

func TestKeyIsGivenBackIfTooFewReplicasHaveIt(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL { // Redis before 3.0 has no WAIT
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			t.Parallel()
			primary := binary.Start(t, redistest.Options{})
			replica := primary.StartReplica()
			primary.AwaitReplica()
			wire := primary.Wire()
			waiting := func(d time.Duration) (*modern.Backend, *lock.Client) {
				b, err := modern.New(wire.Pool(),
					modern.Config{Fence: true, Replicas: 1, ReplicaWait: d, Timeout: redistest.Patience})
				if err != nil {
					t.Fatal(err)
				}
				return b, client(t, b, lock.Config{TTL: redistest.Patience})
			}
			// The length of the wait matters only if the replica is stopped.
			b, hasty := waiting(300 * time.Millisecond)
			_, c := waiting(redistest.Patience / 2)
			l := acquire(t, c, "k")
			if err := l.Release(); err != nil {
				t.Error(err)
			}
			replica.Pause()
			for n := uint64(1); n <= 2; n++ {
				// A release in the background may not be finished yet.
				err := untilNot(lock.ErrHeld, func() error {
					_, err := hasty.TryAcquire(bg, "k")
					return err
				})
				if err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
					t.Fatalf("with the replica stopped: %v", err)
				}
				if missing := b.Stats().ReplicasMissing; missing != n {
					t.Errorf("%d acquisitions that replicas missed, want %d", missing, n)
				}
			}
			replica.Continue()
			takeAndFree := func() {
				t.Helper()
				err := untilNot(lock.ErrHeld, func() (err error) {
					l, err = c.TryAcquire(bg, "k")
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
			takeAndFree()
			wire.Fault(redistest.Rule{Command: "WAIT", Do: redistest.CutAfter})
			if _, err := c.TryAcquire(bg, "k"); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("without an answer of the replicas: %v", err)
			}
			takeAndFree()
		})
	}
}

// untilNot repeats f while its error wraps passing.
func untilNot(passing error, f func() error) (err error) {
	for err = f(); errors.Is(err, passing); err = f() {
	}
	return err
}

func TestAcquisitionsShareTheWaitForReplicas(t *testing.T) {
	primary := redistest.Real(t, redistest.Options{})
	primary.StartReplica()
	primary.AwaitReplica()
	wire := primary.Wire()
	b, err := modern.New(wire.Pool(),
		modern.Config{Replicas: 1, ReplicaWait: redistest.Patience / 2, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, b, lock.Config{TTL: redistest.Patience})
	gate := redistest.NewGate()
	wire.Fault(redistest.Rule{Command: "WAIT", Do: redistest.HoldReply(gate)})
	var wg sync.WaitGroup
	const leases = 200
	for i := range leases {
		wg.Go(func() {
			l, err := c.Acquire(bg, fmt.Sprint("k", i))
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	<-gate.Reached()
	wire.Await("SET", leases) // on the connection that WAIT does not delay
	gate.Open()
	wg.Wait()
	if n := wire.Count("WAIT"); n > leases/4 {
		t.Errorf("%d acquisitions took %d WAITs", leases, n)
	}
}

// That includes the token of a goroutine that waited for another of its
// process.
func TestBackendAsksReplicasAboutEveryToken(t *testing.T) {
	primary := redistest.Real(t, redistest.Options{})
	primary.StartReplica()
	primary.AwaitReplica()
	wire := primary.Wire()
	b, err := modern.New(wire.Pool(),
		modern.Config{Replicas: 1, ReplicaWait: redistest.Patience / 2, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 1)
	c := client(t, b, lock.Config{TTL: redistest.Patience, LocalHandOvers: -1,
		Hooks: lock.Hooks{Waiting: func(lock.Event) { waits <- struct{}{} }}})
	first := acquire(t, c, "k")
	result := c.Request(bg, "k")
	<-waits
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	got := <-result
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	second := got.Lease
	if n := wire.Count("WAIT"); second.Token() == first.Token() || n != 2 {
		t.Errorf("for tokens %s and %s replicas were asked %d times", first.Token(), second.Token(), n)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}

func fenced(t *testing.T, pool *redis.Pool, cfg lock.Config) *lock.Client {
	t.Helper()
	b := openOn(t, pool, modern.Config{Fence: true, Timeout: 5 * time.Second})
	return client(t, b, cfg)
}

func number(t *testing.T, l *lock.Lease) int64 {
	t.Helper()
	fence, ok := l.Fence()
	if !ok {
		t.Fatal("no fencing number")
	}
	return fence
}

func TestReplicatedLeaseOutlivesAPromotion(t *testing.T) {
	p := redistest.NewPair(t)
	a, b, c := fenced(t, p.Pool(), lock.Config{}), fenced(t, p.Pool(), lock.Config{Wait: -1}),
		fenced(t, p.Pool(), lock.Config{})
	l := acquire(t, a, "k")
	p.Primary.AwaitReplica()
	p.Promote()
	if _, err := b.Acquire(bg, "k"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("another client got %v", err)
	}
	if err := l.Renew(bg); err != nil {
		t.Errorf("renewed on the new primary: %v", err)
	}
	before := number(t, l)
	// A connection to the old primary may be found dead only now. The release
	// then goes on in the background.
	if err := l.Release(); errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	l = acquire(t, c, "k")
	if after := number(t, l); after <= before {
		t.Errorf("fence %d after %d", after, before)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestNumbersDifferAfterAPromotionThatLostWrites shows the documented hazard: a
// promoted replica that lost writes grants the key again, and only the fencing
// numbers tell the two holders apart.
func TestNumbersDifferAfterAPromotionThatLostWrites(t *testing.T) {
	p := redistest.NewPair(t)
	a, b := fenced(t, p.Pool(), lock.Config{}), fenced(t, p.Pool(), lock.Config{})
	for _, c := range []*lock.Client{a, b} { // both are connected before the pair is cut
		if err := acquire(t, c, "other").Release(); err != nil {
			t.Fatal(err)
		}
	}
	p.CutOff()
	first := acquire(t, a, "k")
	p.Promote()
	second := acquire(t, b, "k")
	if first.Err() != nil || second.Err() != nil {
		t.Errorf("no double grant to show: %v, %v", first.Err(), second.Err())
	}
	if one, two := number(t, first), number(t, second); two <= one {
		t.Errorf("the second holder has number %d, the first %d", two, one)
	}
	if err := first.Renew(bg); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the first holder's renewal: %v", err)
	}
	if err := first.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}

// sentinel starts a Redis Sentinel that watches the pair and returns its
// address.
func sentinel(t *testing.T, p *redistest.Pair) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is missing, which is the sentinel too; `make prepare` installs it: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(addr)
	_, watched, _ := net.SplitHostPort(p.Primary.Addr())
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor m 127.0.0.1 %s 1\nsentinel down-after-milliseconds m 2000\nsentinel failover-timeout m 2000\n", port, dir, watched)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, conf, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	sees := func() bool {
		c, err := redis.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		replicas, err := redis.Values(c.Do("SENTINEL", "SLAVES", "m"))
		return err == nil && len(replicas) == 1
	}
	for deadline := time.After(redistest.Patience); !sees(); {
		select {
		case <-deadline:
			t.Fatal("the sentinel does not see the replica")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return addr
}

func TestSentinelLeadsToThePromotedServer(t *testing.T) {
	p := redistest.NewPair(t)
	address, err := redisconn.Parse("redis+sentinel://" + sentinel(t, p) + "/m")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := address.Pool(redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	a, b := fenced(t, pool, lock.Config{TTL: time.Minute}), fenced(t, pool, lock.Config{TTL: time.Minute})
	for _, c := range []*lock.Client{a, b} {
		if err := acquire(t, c, "other").Release(); err != nil {
			t.Fatal(err)
		}
	}
	p.CutOff()
	first := acquire(t, a, "k") // the promotion will lose this write
	p.Primary.Kill()
	var second *lock.Lease
	for second == nil { // until the sentinel has promoted the replica, which does not have the key
		second, err = b.Acquire(bg, "k")
		if err != nil && errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
	}
	if one, two := number(t, first), number(t, second); two <= one {
		t.Errorf("the second holder has number %d, the first %d", two, one)
	}
	for err = nil; !errors.Is(err, lock.ErrLost); err = first.Renew(bg) {
		if first.Err() != nil {
			break
		}
	}
	if err := first.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}
