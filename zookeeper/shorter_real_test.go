// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// renewals are the ends of leases that were renewed.
type renewals struct{ moved chan time.Time }

func newRenewals() *renewals { return &renewals{make(chan time.Time, 1024)} }

func (r *renewals) hook(e lock.Event) { r.moved <- e.Until }

// await waits until a renewal has moved the end of the lease.
func (r *renewals) await(t *testing.T, lease *lock.Lease) {
	t.Helper()
	for last := lease.Until(); ; {
		select {
		case until := <-r.moved:
			if until.After(last) {
				return
			}
		case <-lease.Done():
			t.Fatalf("the lease ended: %v", lease.Err())
		}
	}
}

// The server keeps sessions for 20 s at most. The usual TTL is 30 s. The Client
// of Open has the shorter one; another Client trusts its leases for less, and
// says so once. Both renew in time.
func TestShorterSessionsAreRenewedInTime(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, "maxSessionTimeout=20000")
	t.Run("Open", func(t *testing.T) { openShorter(t, server) })
	t.Run("New", func(t *testing.T) { newShorter(t, server) })
	t.Run("too short", func(t *testing.T) { tooShort(t, server) })
}

func openShorter(t *testing.T, server *zktest.Server) {
	t.Parallel()
	said, seen := new(journal), newRenewals()
	c := open(t, "zookeeper://"+server.Addr+"/open", zookeeper.Options{
		Backend: zookeeper.Config{Logger: slog.New(slog.NewTextHandler(said, nil))},
		Lock:    lock.Config{Hooks: lock.Hooks{Renewed: seen.hook}}})
	if _, err := c.With(func(cfg *lock.Config) {
		if cfg.TTL != 20*time.Second || cfg.Margin != 2*time.Second {
			t.Errorf("TTL %v, Margin %v", cfg.TTL, cfg.Margin)
		}
	}); err != nil {
		t.Error(err)
	}
	lease := acquire(t, c, "k")
	if left := time.Until(lease.Until()); left > 20*time.Second {
		t.Errorf("trusted for %v", left)
	}
	seen.await(t, lease)
	release(t, lease)
	if said.count("granted=20s") != 1 || said.count("asked=30s") != 1 {
		t.Errorf("the log says: %s", said)
	}
}

func newShorter(t *testing.T, server *zktest.Server) {
	t.Parallel()
	seen := newRenewals()
	c, said := logging(t, zookeeper.Config{Chroot: "/new"},
		lock.Config{Hooks: lock.Hooks{Renewed: seen.hook}}, server.Addr)
	lease := acquire(t, c, "k")
	if left := time.Until(lease.Until()); left > 20*time.Second {
		t.Errorf("trusted for %v", left)
	}
	other := acquire(t, c, "other")
	if session(lease) != session(other) {
		t.Errorf("two sessions: %s and %s", lease.Token(), other.Token())
	}
	seen.await(t, lease)
	release(t, lease)
	release(t, other)
	if said.count("granted=20s") != 1 {
		t.Errorf("the log says: %s", said)
	}
}

func tooShort(t *testing.T, server *zktest.Server) {
	t.Parallel()
	b := newBackend(t, zookeeper.Config{Timeout: zktest.Patience}, server.Addr)
	for asked, want := range map[time.Duration]time.Duration{
		time.Hour: 20 * time.Second, 5 * time.Second: 5 * time.Second,
	} {
		if got, err := b.Longest(context.Background(), asked); got != want || err != nil {
			t.Errorf("Longest(%v): %v, %v", asked, got, err)
		}
	}
	c, err := lock.New(b, lock.Config{TTL: 15 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	_, err = c.Acquire(context.Background(), "k")
	wants(t, "a margin above a quarter", err, false, "at most 20s", "maxSessionTimeout",
		"lower Config.TTL to 20s", "Config.Margin 1m30s")
	_, err = zookeeper.Open(context.Background(), "zookeeper://"+server.Addr,
		zookeeper.Options{Backend: zookeeper.Config{Timeout: zktest.Patience},
			Lock: lock.Config{TTL: 15 * time.Minute, RenewEvery: time.Minute}})
	if err == nil || !strings.Contains(err.Error(), "at most 20s") ||
		!strings.Contains(err.Error(), "Config.RenewEvery (1m0s)") || errors.Is(err, lock.ErrTooLate) {
		t.Errorf("Open with times that do not fit: %v", err)
	}
}

// An administrator lowers maxSessionTimeout and restarts the server while a
// lease is held. If that took longer than the difference, the session goes on
// with the shorter time, and so does the lease. If not, the session ends: the
// trust in the lease would outlive it.
func TestLeaseEndsWithAShorterSessionTime(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	seen := newRenewals()
	c, said := logging(t, zookeeper.Config{Chroot: "/locks"}, lock.Config{TTL: 30 * time.Second,
		RenewEvery: 200 * time.Millisecond, Hooks: lock.Hooks{Renewed: seen.hook}}, server.Addr)
	lease := acquire(t, c, "k")
	seen.await(t, lease)
	server.Kill()
	server.Reconfigure("maxSessionTimeout=24000")
	server.Run()
	const goesOn = "leases are trusted for that time only"
	lost := false
	for end := time.After(zktest.Patience); said.count(goesOn) == 0 && !lost; {
		select {
		case <-end:
			t.Fatalf("the log says: %s", said)
		case <-seen.moved:
		case <-lease.Done():
			lost = true
		}
	}
	if left := time.Until(lease.Until()); !lost && left > 24*time.Second {
		t.Errorf("trusted for %v", left)
	}
	if said.count("its locks are lost") == 1 != lost {
		t.Errorf("lost: %t (%v); the log says: %s", lost, lease.Err(), said)
	}
	if !lost {
		release(t, lease)
	}
	release(t, acquire(t, c, "k"))
}

// session is the id of a lease's session.
func session(l *lock.Lease) string {
	id, _, _ := strings.Cut(l.Token(), "/")
	return id
}
