// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// Memory is a store other than Redis, in memory. Its addresses begin with
// mem://.
type Memory struct {
	*locktest.Store

	mu      sync.Mutex
	names   map[string]bool
	away    int             // how many more calls of Open fail
	opened  backing.Address // of the last Open
	options backing.Options // of the last Open
	closed  int

	silent atomic.Bool // see Silence
}

// WithMemory gives a stage a store in memory.
func WithMemory(s *Stage) *Memory {
	m := &Memory{Store: locktest.NewStore(s.Clock), names: map[string]bool{}}
	s.Stores = map[string]backing.Store{"mem": {Name: "Memory", Port: "1", Path: "folder", Open: m.open}}
	return m
}

// Away makes the next calls of Open fail, as a store that is not there yet.
func (m *Memory) Away(times int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = times
}

// Silence makes the store answer no more. Await then ends with its context, and
// Look at once.
func (m *Memory) Silence() { m.silent.Store(true) }

// Opened returns what the last Open was asked for, and how many connections
// were closed.
func (m *Memory) Opened() (a backing.Address, o backing.Options, closed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened, m.options, m.closed
}

func (m *Memory) open(_ context.Context, a backing.Address, o backing.Options) (backing.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened, m.options = a, o
	if m.away > 0 {
		m.away--
		return nil, awayError{errors.New("nobody there")}
	}
	return &memoryConn{m}, nil
}

// awayError is trouble that may pass.
type awayError struct{ error }

func (awayError) Passing() bool { return true }

type memoryConn struct{ m *Memory }

func (c *memoryConn) Backend() backend.Store {
	full := c.m.Full().Contract()
	return backend.Of(&memoryBackend{full, full.(backend.Waker), c.m})
}

// memoryBackend remembers the names that it was asked for.
type memoryBackend struct {
	backend.Backend
	backend.Waker
	m *Memory
}

func (b *memoryBackend) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	b.m.mu.Lock()
	b.m.names[key] = true
	b.m.mu.Unlock()
	return b.Backend.Try(ctx, key, ttl)
}

func (b *memoryBackend) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	if b.m.silent.Load() {
		<-ctx.Done()
		return nil, false, awayError{ctx.Err()}
	}
	return b.Waker.Await(ctx, key, wake)
}

func (b *memoryBackend) Advise(cfg backend.Settings) backend.Settings { return cfg }
func (b *memoryBackend) Timeout() time.Duration                       { return 0 }
func (b *memoryBackend) Close() error                                 { return nil }
func (b *memoryBackend) Fits(ttl, _, _ time.Duration) error {
	if ttl < time.Second {
		return errors.New("etcd: Config.TTL is too short")
	}
	return nil
}

// Longest is an hour.
func (c *memoryConn) Longest(_ context.Context, ttl time.Duration) (time.Duration, error) {
	return min(ttl, time.Hour), nil
}

// Unfit refuses names that end with a plus.
func (c *memoryConn) Unfit(_ context.Context, name string) (string, error) {
	if strings.HasSuffix(name, "+") {
		return "the name ends with a plus; choose another one", nil
	}
	return "", nil
}

func (c *memoryConn) Look(_ context.Context, name string) (*backing.Lock, error) {
	if c.m.silent.Load() {
		return nil, awayError{errors.New("no answer")}
	}
	token := c.m.Holder(name)
	if token == "" {
		return nil, nil
	}
	return &backing.Lock{Name: name, Type: "thing", Owner: token, Note: "a note", Value: "7 " + token,
		Waiters: int64(c.m.Queue(name)), Fence: 7, Left: 2 * time.Second}, nil
}

// List cannot see names that begin with "secret".
func (c *memoryConn) List(ctx context.Context, prefix string) ([]backing.Lock, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	var all []backing.Lock
	var err error
	for name := range c.m.names {
		l, _ := c.Look(ctx, name)
		switch {
		case l == nil || !strings.HasPrefix(name, prefix):
		case strings.HasPrefix(name, "secret"):
			err = errors.New("some locks may not be read")
		default:
			all = append(all, *l)
		}
	}
	return all, err
}

func (c *memoryConn) Free(_ context.Context, name, value string) (bool, error) {
	if token := c.m.Holder(name); token == "" || value != "7 "+token {
		return false, nil
	}
	c.m.Seize(name, "", 0)
	return true, nil
}

func (c *memoryConn) Advice(err error) string {
	if strings.Contains(err.Error(), "s3cret") {
		return "the store is a fake"
	}
	return "look into the test"
}

func (c *memoryConn) Close() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.closed++
	return nil
}

// Take lets another client hold a lock of the store for a minute.
func (m *Memory) Take(name, token string) {
	m.mu.Lock()
	m.names[name] = true
	m.mu.Unlock()
	m.Seize(name, token, time.Minute)
}
