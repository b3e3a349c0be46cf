// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/lock"
)

// How many acquisitions the foreign clients make. The stage targets of
// scripts/test.sh asks for more.
var (
	byJetcd   = flag.Int("jetcd", 150, "acquisitions of jetcd")
	byEtcdctl = flag.Int("etcdctl", 10, "acquisitions of etcdctl")
)

// etcdctl returns Debian's client of etcd, with a lease of a few seconds.
func (c *Cluster) etcdctl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "etcdctl", args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS="+c.Endpoints()[0])
	cmd.Stderr = os.Stderr
	return cmd
}

// holder is an etcdctl that waits for a lock, or holds it.
type holder struct {
	cmd *exec.Cmd
	key chan string // gets the key when it holds the lock; closed when it ends
}

func (c *Cluster) lockedByEtcdctl(t *testing.T, name string) *holder {
	t.Helper()
	h := &holder{cmd: c.etcdctl(context.Background(), "lock", "--ttl=2", name), key: make(chan string, 1)}
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.key)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.key <- lines.Text()
		}
	}()
	t.Cleanup(func() { h.end(os.Kill) })
	return h
}

func (h *holder) end(signal os.Signal) {
	_ = h.cmd.Process.Signal(signal)
	_ = h.cmd.Wait()
}

// jetcd starts a JVM with one jetcd client.
func (c *Cluster) jetcd(t testing.TB, vars ...string) *program.Peer {
	t.Helper()
	target := filepath.Join("..", "..", "..", "java", "etcd", "target")
	if _, err := os.Stat(filepath.Join(target, "etcd.jar")); err != nil {
		t.Fatalf("%v: run scripts/prepare.sh", err)
	}
	cmd := exec.Command("java", "-Xmx128m", "-cp",
		filepath.Join(target, "etcd.jar")+":"+filepath.Join(target, "lib", "*"), "getsetlock.etcd.Main",
		"http://"+c.Endpoints()[0])
	cmd.Env = append(os.Environ(), vars...)
	j := program.Start(t, cmd)
	if _, err := j.Answer(); err != nil { // its greeting
		t.Fatalf("jetcd: %v", err)
	}
	return j
}

// patient gives jetcd a lease that outlasts pauses of a busy machine.
const patient = "JETCD_TTL_SECONDS=60"

// do sends an order to jetcd and returns the answer.
func do(t testing.TB, j *program.Peer, order string) string {
	t.Helper()
	said, err := j.Order(order)
	if err != nil {
		t.Errorf("jetcd: %v", err)
	}
	return said
}

// addOne adds one to a counter by a read and a write. Only the lock keeps two
// of these apart.
func addOne(ctx context.Context, client *clientv3.Client, counter string) error {
	got, err := client.Get(ctx, counter)
	if err != nil {
		return err
	}
	n := 0
	if len(got.Kvs) > 0 {
		n, _ = strconv.Atoi(string(got.Kvs[0].Value))
	}
	_, err = client.Put(ctx, counter, strconv.Itoa(n+1))
	return err
}

func TestForeignClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	j := c.jetcd(t, patient)
	own := c.Client()
	ctx, cancel := context.WithCancel(context.Background()) // the long runs outlast Patience
	defer cancel()
	var ours, oursBeforeJetcd atomic.Int64
	var others, all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 { // getsetlock, until the others are done
		locks, _ := c.locks(t, lock.Config{TTL: long})
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := locks.Do(ctx, "stock", func(ctx context.Context) error {
					return addOne(ctx, own, "goods")
				}); err != nil {
					t.Error(err)
					return
				}
				ours.Add(1)
			}
		})
	}
	others.Go(func() {
		do(t, j, fmt.Sprintf("count stock goods %d", *byJetcd))
		oursBeforeJetcd.Store(ours.Load())
	})
	others.Go(func() {
		for range *byEtcdctl {
			add := `etcdctl put goods $(($(etcdctl get --print-value-only goods) + 1)) >/dev/null`
			if err := c.etcdctl(ctx, "lock", "--ttl=30", "stock", "--", "sh", "-c", add).Run(); err != nil {
				t.Errorf("etcdctl: %v", err)
			}
		}
	})
	others.Wait()
	close(stop)
	all.Wait()
	got, err := own.Get(ctx, "goods")
	if err != nil {
		t.Fatal(err)
	}
	want := *byJetcd + *byEtcdctl + int(ours.Load())
	if n, _ := strconv.Atoi(string(got.Kvs[0].Value)); n != want {
		t.Errorf("%d updates of %d were kept", n, want)
	}
	t.Logf("%d by jetcd, while %d by getsetlock; %d by etcdctl, while %d by getsetlock", *byJetcd,
		oursBeforeJetcd.Load(), *byEtcdctl, ours.Load())
	if oursBeforeJetcd.Load() < int64(*byJetcd)/4 {
		t.Error("getsetlock starved")
	}
	if left := c.Keys("stock/"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestEtcdctlAndGetsetlockWakeEachOther(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, locks, "stock")
	theirs := c.lockedByEtcdctl(t, "stock")
	await(t, "etcdctl's key", func() bool { return len(c.Keys("stock/")) == 2 })
	ours := locks.Request(testContext(t), "stock")
	await(t, "our next key", func() bool { return len(c.Keys("stock/")) >= 2 })
	release(t, held)
	if key := <-theirs.key; !strings.HasPrefix(key, "stock/") {
		t.Fatalf("etcdctl was not woken: %q", key)
	}
	select {
	case r := <-ours:
		t.Fatalf("beside etcdctl: %+v", r)
	default:
	}
	theirs.end(os.Interrupt) // it unlocks
	if r := <-ours; r.Err != nil {
		t.Error(r.Err)
	} else {
		release(t, r.Lease)
	}
}

func TestJetcdAndGetsetlockWakeEachOther(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	j := c.jetcd(t)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	held := acquire(t, locks, "stock")
	if err := j.Send("lock stock"); err != nil {
		t.Fatal(err)
	}
	await(t, "jetcd's key", func() bool { return len(c.Keys("stock/")) == 2 })
	release(t, held)
	key, err := j.Answer()
	if err != nil {
		t.Errorf("jetcd: %v", err)
	}
	ours := locks.Request(testContext(t), "stock")
	await(t, "our key", func() bool { return len(c.Keys("stock/")) == 2 })
	do(t, j, "unlock "+key)
	if r := <-ours; r.Err != nil {
		t.Error(r.Err)
	} else {
		release(t, r.Lease)
	}
}

// A holder of either side dies. The other gets the lock when the lease ends.
func TestLockOfADeadForeignHolderIsFreed(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	j := c.jetcd(t)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	theirs := c.lockedByEtcdctl(t, "one")
	<-theirs.key
	do(t, j, "lock two")
	theirs.end(os.Kill)
	j.Kill()
	for _, name := range []string{"one", "two"} {
		release(t, acquire(t, locks, name))
	}
}
