// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// Two cuts fit the time of make test; make check has ten. The figures of
// docs/guide/clocks.md come from all three flags.
var (
	cuts     = flag.Int("cuts", 2, "how often a follower is cut off from its leader")
	cutTTL   = flag.Duration("cut-ttl", 4*time.Second, "TTL of the locks whose follower is cut off")
	overlaps = flag.Bool("overlaps", false,
		"try trust from the last read and from the last write too, and fail unless both overlap with the next holder")
)

// A follower is cut off from its leader and goes on to answer its client's
// reads. The holder learns of its loss before another client, at the leader,
// gets the lock. The cuts come at random moments, and every second one right
// after a sign of life was answered: then the leader knows least.
func TestHolderBehindACutFollowerLosesInTime(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 3)
	leader := e.Leader()
	follower := (leader + 1) % 3
	near := client(t, lock.Config{TTL: *cutTTL}, e.Servers[leader].Addr)
	late := map[string]int{}
	for i := range *cuts {
		c := &cut{t: t, late: late, near: near, at: e.Servers[follower].Addr, after: i%2 == 1,
			freeze: func() (thaw func()) { return e.Freeze(follower, leader) }}
		c.run()
		e.Await()
	}
	if *overlaps && (late["read"] == 0 || late["last write"] == 0) {
		t.Errorf("not every wrong rule overlapped with the next holder: %v in %d cuts", late, *cuts)
	}
	if late["write before"] > 0 {
		t.Errorf("trust from the write before the last overlapped %d times", late["write before"])
	}
	t.Logf("%d cuts, overlaps: %v", *cuts, late)
}

// cut is one cut of a follower, with holders behind it.
type cut struct {
	t      *testing.T
	near   *lock.Client // at the leader
	at     string       // address of the follower
	freeze func() (thaw func())
	after  bool           // cut right after a sign of life
	late   map[string]int // how often a rule overlapped

	mu sync.Mutex
}

func (c *cut) run() {
	answered := signs{make(chan struct{}, 1)}
	// Every cut ends the session, so each has a client of its own.
	far, err := lock.New(newBackend(c.t, zookeeper.Config{Chroot: "/locks", Dial: answered.dial}, c.at),
		lock.Config{TTL: *cutTTL})
	if err != nil {
		c.t.Fatal(err)
	}
	lease := acquire(c.t, far, "k")
	var rules []*witness
	if *overlaps {
		rules = []*witness{c.witness("read"), c.witness("written")}
	}
	c.moment(answered, rules)
	thaw := c.freeze()
	var work sync.WaitGroup
	work.Go(func() { c.next(lease) })
	for _, w := range rules {
		work.Go(func() { w.next(c) })
	}
	work.Wait()
	thaw()
	for _, w := range rules {
		w.close()
	}
	_ = lease.Release()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	if err := far.Close(ctx); err != nil {
		c.t.Errorf("Close: %v", err)
	}
}

// moment waits until the follower is to be cut off.
func (c *cut) moment(answered signs, rules []*witness) {
	<-time.After(*cutTTL/3 + rand.N(*cutTTL/3))
	switch {
	case !c.after:
	case len(rules) > 0:
		<-rules[1].wrote // perhaps an earlier write
		<-rules[1].wrote
	default:
		<-answered.answered // perhaps of an earlier sign
		<-answered.answered
	}
}

// next takes the lock after the holder behind the follower.
func (c *cut) next(lease *lock.Lease) {
	next := acquire(c.t, c.near, "k")
	err, now := lease.Err(), time.Now()
	if !errors.Is(err, lock.ErrLost) {
		c.t.Errorf("the next client holds the lock, and the holder's lease says %v", err)
	}
	c.t.Logf("ours: %v between the end of trust and the next grant", now.Sub(lease.Until()))
	release(c.t, next)
}

// signs reports the answered signs of life of one client.
type signs struct{ answered chan struct{} }

func (s signs) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &signsConn{Conn: conn, to: s}, err
}

// opMulti is the code of a transaction.
const opMulti = 14

type signsConn struct {
	net.Conn
	to signs

	mu     sync.Mutex
	number uint32 // of the transaction that was sent last; 0: none
}

func (c *signsConn) Write(p []byte) (int, error) {
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == opMulti {
		c.mu.Lock()
		c.number = binary.BigEndian.Uint32(p[4:])
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// Read finds the reply, since the library reads the length of a frame first and
// then the frame.
func (c *signsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= 4 && c.number != 0 && binary.BigEndian.Uint32(p) == c.number {
		c.number = 0
		select {
		case c.to.answered <- struct{}{}:
		default:
		}
	}
	return n, err
}

// witness is a bare session that holds a lock behind the follower, and trusts
// it by the wrong rules.
type witness struct {
	rule  string
	conn  *zk.Conn
	node  string
	wrote chan struct{} // capacity 1: a write was answered
	over  chan struct{}
	work  sync.WaitGroup

	mu           sync.Mutex
	last, before time.Duration // when the last answered requests were sent
	granted      time.Duration // when the next holder got the lock
}

// quiet drops the library's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// elapsed reads the clock by which leases are trusted.
func elapsed() time.Duration { return backend.ReadClock(context.Background()).Elapsed }

func (c *cut) witness(rule string) *witness {
	c.t.Helper()
	conn, _, err := zk.Connect([]string{c.at}, *cutTTL, zk.WithLogger(quiet{}))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, parent := range []string{"/locks", "/locks/" + rule} {
		_, err := conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && err != zk.ErrNodeExists {
			c.t.Fatal(err)
		}
	}
	node, err := conn.Create("/locks/"+rule+"/far-lock-", nil, zk.FlagEphemeralSequential,
		zk.WorldACL(zk.PermAll))
	if err != nil {
		c.t.Fatal(err)
	}
	w := &witness{rule: rule, conn: conn, node: node, wrote: make(chan struct{}, 1),
		over: make(chan struct{}), last: elapsed(), before: elapsed()}
	if rule == "read" {
		w.work.Go(func() { w.every(*cutTTL/20, w.read) })
	} else {
		w.work.Go(func() { w.every(*cutTTL/3, w.write) })
	}
	return w
}

func (w *witness) read() error {
	there, _, err := w.conn.Exists(w.node)
	if !there {
		err = zk.ErrNoNode
	}
	return err
}

func (w *witness) write() error {
	_, err := w.conn.Multi(&zk.CheckVersionRequest{Path: w.node, Version: -1})
	if err == nil {
		select {
		case w.wrote <- struct{}{}:
		default:
		}
	}
	return err
}

// every asks again and again, and notes when an answered request was sent.
func (w *witness) every(pause time.Duration, ask func() error) {
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
}

// next takes the lock after the witness, and says which rules overlapped.
func (w *witness) next(c *cut) {
	lease := acquire(c.t, c.near, w.rule)
	w.mu.Lock()
	w.granted = elapsed()
	marks := map[string]time.Duration{"last write": w.last, "write before": w.before}
	if w.rule == "read" {
		marks = map[string]time.Duration{"read": w.last}
	}
	w.mu.Unlock()
	for rule, mark := range marks {
		slack := w.granted - mark - *cutTTL*9/10
		c.t.Logf("%s: %v between the end of trust and the next grant", rule, slack)
		if slack < 0 {
			c.mu.Lock()
			c.late[rule]++
			c.mu.Unlock()
		}
	}
	release(c.t, lease)
}

func (w *witness) close() {
	close(w.over)
	w.conn.Close()
	w.work.Wait()
}
