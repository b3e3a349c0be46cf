// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// TokenLock is a lock on a Redis key that renews itself.
type TokenLock struct {
	Pool  *redis.Pool
	Key   string
	TTL   time.Duration
	Poll  time.Duration
	token string
	got   chan struct{}
	stop  chan struct{}
}

func NewTokenLock(pool *redis.Pool, key string, ttl, poll time.Duration) *TokenLock {
	source := rand.New(rand.NewSource(time.Now().Unix()))
	return &TokenLock{Pool: pool, Key: key, TTL: ttl, Poll: poll,
		token: fmt.Sprint(source.Int63()), // 1
		got:   make(chan struct{}), stop: make(chan struct{})}
}

// Lock delivers when the key is held.
func (l *TokenLock) Lock() <-chan struct{} {
	conn := l.Pool.Get()
	defer conn.Close()
	if l.set(conn) {
		go l.renew()
		l.got <- struct{}{} // 2
		return l.got
	}
	go func() {
		for {
			<-time.After(l.Poll)
			conn := l.Pool.Get()
			defer conn.Close() // 3
			if l.set(conn) {
				l.got <- struct{}{} // 4
				return
			}
		}
	}()
	return l.got
}

func (l *TokenLock) set(conn redis.Conn) bool {
	n, err := redis.Int(conn.Do("SET", l.Key, l.token, "NX", "PX", l.TTL.Milliseconds())) // 5
	return err == nil && n == 1
}

func (l *TokenLock) renew() {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(l.TTL / 3):
			conn := l.Pool.Get()
			conn.Do("PEXPIRE", l.Key, l.TTL.Milliseconds()) // 6
			conn.Close()
		}
	}
}

func (l *TokenLock) Unlock() {
	l.stop <- struct{}{} // 7
	conn := l.Pool.Get()
	conn.Do("EVAL", compareAndDelete, 1, l.Key, l.token)
	conn.Close()
	l.Pool.Close() // 8
}

// memory is a server that knows the commands of TokenLock, without a network,
// so that a bubble can tell when all goroutines wait. Keys in it do not expire.
type memory struct {
	mu       sync.Mutex
	values   map[string]string
	sent     []string
	conns    int  // connections so far
	most     int  // the most that it allows; negative: no limit
	repaired bool // SET answers 1 instead of OK, as if fault 5 were mended
}

func (m *memory) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 8, Dial: func() (redis.Conn, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.conns == m.most {
			return nil, errors.New("no connection is free")
		}
		m.conns++
		return memoryConn{m}, nil
	}}
}

// memoryConn is a connection to it.
type memoryConn struct{ *memory }

func (c memoryConn) Do(name string, args ...any) (any, error) {
	if name == "" {
		return nil, nil // the pool's own, before it takes a connection back
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, name)
	if name == "EVAL" { // compareAndDelete
		key, token := args[2].(string), args[3].(string)
		if c.values[key] == token {
			delete(c.values, key)
		}
		return nil, nil
	}
	key := args[0].(string)
	_, exists := c.values[key]
	switch {
	case name == "PEXPIRE" && exists:
		return int64(1), nil
	case name == "SET" && !exists:
		c.values[key] = args[1].(string)
		if c.repaired {
			return int64(1), nil
		}
		return "OK", nil
	}
	return nil, nil
}

func (memoryConn) Close() error              { return nil }
func (memoryConn) Err() error                { return nil }
func (memoryConn) Send(string, ...any) error { return nil }
func (memoryConn) Flush() error              { return nil }
func (memoryConn) Receive() (any, error)     { return nil, nil }

// count is how many commands of that name arrived.
func (m *memory) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Count(strings.Join(m.sent, " "), name)
}

// value is what the key of the lock has, empty if nothing.
func (m *memory) value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values["stock:42"]
}

// put writes the key of the lock, or deletes it if value is empty.
func (m *memory) put(value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == "" {
		delete(m.values, "stock:42")
		return
	}
	m.values["stock:42"] = value
}

// allow changes how many connections there may be.
func (m *memory) allow(most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = most
}

// repair mends fault 5.
func (m *memory) repair() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repaired = true
}

func (m *memory) lock(pool *redis.Pool) *TokenLock {
	return NewTokenLock(pool, "stock:42", time.Minute, time.Second)
}

func repairedMemory() *memory {
	return &memory{values: map[string]string{}, most: -1, repaired: true}
}

// begun runs fn in the background and returns whether fn has returned, once
// every goroutine of the bubble waits.
func begun(fn func()) (returned func() bool) {
	over := false
	go func() {
		fn()
		over = true
	}()
	return func() bool {
		synctest.Wait()
		return over
	}
}

// Row 1: two processes of one second draw the same token.
func TestTokenLocksOfOneSecondHaveOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		if a, b := m.lock(nil), m.lock(nil); a.token != b.token {
			t.Errorf("tokens %s and %s", a.token, b.token)
		}
	})
}

// Row 2: the caller has no channel to receive from yet.
func TestTokenLockOfAFreeKeyNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		l := m.lock(m.pool())
		returned := begun(func() { l.Lock() })
		if returned() {
			t.Error("Lock returned")
		}
		if m.value() != l.token {
			t.Error("the key is not taken")
		}
		<-l.got // so that the bubble can end; the caller of Lock cannot do this
		l.stop <- struct{}{}
	})
}

// Row 3: each poll keeps a connection until the waiter has the key.
func TestTokenLockWaiterUsesUpThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		m.put("of another")
		m.most = 3
		l := m.lock(m.pool())
		got := l.Lock()
		time.Sleep(10 * time.Second)
		if polls := m.count("SET"); polls != 4 {
			t.Errorf("%d attempts by 3 connections, the first of which is used twice", polls)
		}
		m.put("")
		time.Sleep(time.Minute)
		select {
		case <-got:
			t.Error("the waiter got the free key")
		default:
		}
		m.allow(-1)
		<-got
	})
}

// Row 4, and row 7 after it: no goroutine renews, so none receives the stop.
func TestTokenLockOfAWaiterIsNeverRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		m.put("of another")
		l := m.lock(m.pool())
		got := l.Lock()
		m.put("")
		<-got
		time.Sleep(time.Hour)
		if n := m.count("PEXPIRE"); n != 0 {
			t.Errorf("renewed %d times", n)
		}
		returned := begun(l.Unlock)
		if returned() || m.value() != l.token {
			t.Error("Unlock returned")
		}
		<-l.stop
	})
}

// Row 5: redis.Int of OK is an error, so that Lock waits for its own key.
func TestTokenLockDoesNotKnowThatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{values: map[string]string{}, most: -1}
		l := m.lock(m.pool())
		var got <-chan struct{}
		if returned := begun(func() { got = l.Lock() }); !returned() { // as it does where the key was taken
			<-l.got
			l.stop <- struct{}{}
			t.Fatal("Lock knows that it holds")
		}
		time.Sleep(time.Minute)
		select {
		case <-got:
			t.Error("Lock delivered")
		default:
		}
		if m.value() != l.token {
			t.Error("the key is not taken")
		}
		_, err := redis.Int(any("OK"), nil)
		if err == nil || !strings.Contains(err.Error(), "unexpected type for Int") {
			t.Error(err)
		}
		m.repair()
		m.put("")
		<-got
	})
}

// Row 6: the renewal of a lock that was lost prolongs the next holder's.
func TestTokenLockRenewsTheNextHoldersKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		l := m.lock(m.pool())
		begun(func() { l.Lock() })
		<-l.got
		m.put("of the next")
		before := m.count("PEXPIRE")
		time.Sleep(time.Minute)
		if m.count("PEXPIRE") == before {
			t.Error("not renewed")
		}
		l.stop <- struct{}{}
	})
}

// Row 8: every other lock of the process loses its connections.
func TestTokenLockUnlockClosesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := repairedMemory()
		pool := m.pool()
		l := m.lock(pool)
		begun(func() { l.Lock() })
		<-l.got
		l.Unlock()
		if m.value() != "" {
			t.Error("the key is still there")
		}
		conn := pool.Get()
		defer conn.Close()
		if _, err := conn.Do("GET", "anything"); err == nil || !strings.Contains(err.Error(), "closed pool") {
			t.Error(err)
		}
	})
}

func newSharedClient(pool *redis.Pool) (*lock.Client, error) {
	backend, err := legacy.New(pool, legacy.Config{
		Mode:    legacy.Hardened,
		Dialect: dialect.Named("SetPexpire"),
		Terms:   dialect.Terms{Lease: time.Minute}, // the smallest TTL among the old locks
	})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{Wait: 10 * time.Second})
}

func sellRenewed(ctx context.Context, client *lock.Client, order Order) error {
	return client.Do(ctx, "stock:42", func(ctx context.Context) error { // 2 to 8
		return sellUntil(ctx, order) // ctx ends when the lock is lost
	})
}

// The old lock and getsetlock take turns with one key, and the pool stays open.
func Example_pexpire() {
	w := newWorld()
	defer w.close()
	ctx := context.Background()
	pool := w.pool()
	client, err := newSharedClient(pool)
	must(err)
	old := NewTokenLock(w.pool(), "stock:42", time.Minute, time.Second)
	conn := w.dial()

	old.set(conn) // takes the key, whatever it makes of the reply
	_, err = client.TryAcquire(ctx, "stock:42")
	fmt.Println("getsetlock while the old lock holds:", errors.Is(err, lock.ErrHeld))
	conn.Do("EVAL", compareAndDelete, 1, "stock:42", old.token)

	lease := take(client, "stock:42")
	ours, err := w.server.Get("stock:42")
	must(err)
	old.set(conn)
	still, err := w.server.Get("stock:42")
	must(err)
	fmt.Println("the old lock while getsetlock holds:", still != ours)
	must(lease.Release())

	must(sellRenewed(ctx, client, Order{"42", 1}))
	must(client.Close(ctx))
	free := pool.Get()
	defer free.Close()
	fmt.Println(free.Do("PING"))
	// Output:
	// getsetlock while the old lock holds: true
	// the old lock while getsetlock holds: false
	// sold 1 of 42
	// PONG <nil>
}
