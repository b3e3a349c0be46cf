// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// bubble runs a test in virtual time, in which a Timeout costs nothing.
func bubble(t *testing.T, test func(t *testing.T, w *redistest.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, redistest.Bubble(t)) })
}

// open makes a Mux on the pool. It closes the Mux at the end of the test and
// fails the test if Close does not return.
func open(t testing.TB, pool *redis.Pool, o Options) *Mux {
	t.Helper()
	m, err := New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// stub is a connection made by hand. Receive waits for a value in replies or
// for Close.
type stub struct {
	sent    func(cmd string, args []any) error
	flush   func() error
	replies chan any
	closed  chan struct{}
	once    sync.Once
}

func newStub() *stub { return &stub{replies: make(chan any, 100), closed: make(chan struct{})} }

func (s *stub) pool() *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) { return s, nil }}
}

func (s *stub) Send(cmd string, args ...any) error {
	if s.sent == nil {
		return nil
	}
	return s.sent(cmd, args)
}

func (s *stub) Flush() error {
	if s.flush == nil {
		return nil
	}
	return s.flush()
}

func (s *stub) Receive() (any, error) {
	select {
	case v := <-s.replies:
		if err, ok := v.(redis.Error); ok {
			return nil, err
		}
		return v, nil
	case <-s.closed:
		return nil, errors.New("stub closed")
	}
}

func (s *stub) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *stub) Err() error                     { return nil }
func (s *stub) Do(string, ...any) (any, error) { panic("a Mux never calls Do") }

// notSent fails the test unless err says that certainly nothing was sent,
// because of target.
func notSent(t testing.TB, err, target error) {
	t.Helper()
	var e *NotSentError
	if !errors.As(err, &e) || target != nil && !errors.Is(err, target) {
		t.Fatalf("error is %v (%T), want *NotSentError because of %v", err, err, target)
	}
}

// unknown fails the test unless err says that the outcome is unknown, because
// of target.
func unknown(t testing.TB, err, target error) *Pending {
	t.Helper()
	var e *UnknownError
	if !errors.As(err, &e) || target != nil && !errors.Is(err, target) {
		t.Fatalf("error is %v (%T), want *UnknownError because of %v", err, err, target)
	}
	return e.Pending
}

// gone fails the test unless the reply never came.
func gone(t testing.TB, p *Pending) {
	t.Helper()
	if v, err, known := p.Wait(context.Background()); known || err == nil {
		t.Fatalf("late reply is %v, %v, known %v; want none, with the reason", v, err, known)
	}
}

func works(t testing.TB, m *Mux) {
	t.Helper()
	if v, err := redis.String(m.Do(context.Background(), "ECHO", "fine")); v != "fine" || err != nil {
		t.Fatalf("the next call says %q, %v", v, err)
	}
}
