// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// habits fails the test unless Inspect names what another client did to the
// key.
func habits(t *testing.T, b *modern.Backend, key, words string) {
	t.Helper()
	info, err := b.Inspect(bg, key)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(info.Habits, "\n"), words) {
		t.Errorf("habits %q; they should name %q", info.Habits, words)
	}
}

// fleet returns a backend on a server that reports changes, and a Client on it.
func fleet(t *testing.T) (*redistest.Server, *modern.Backend, *lock.Client) {
	s := redistest.Real(t, redistest.Options{})
	b := openOn(t, s.Pool(), modern.Config{})
	return s, b, client(t, b, lock.Config{TTL: 30 * time.Second})
}

// watched waits until the lease's key is watched.
func watched(t *testing.T, s *redistest.Server) {
	t.Helper()
	for s.Do("EVAL",
		"return tonumber(string.match(redis.call('INFO', 'stats'), 'tracking_total_keys:(%d+)'))",
		0) != int64(1) {
		<-time.After(10 * time.Millisecond)
	}
}

// lostSoon waits for the end of a lease whose loss the server is about to
// report.
func lostSoon(t *testing.T, l *lock.Lease) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(redistest.Patience):
		t.Fatal("the lease has not ended")
	}
	if !errors.Is(l.Err(), lock.ErrLost) {
		t.Error(l.Err())
	}
	if err := l.Release(); !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
}

// The old client's job outlives its own lease, and its DEL frees the next one.
func TestSetDelFreesTheKeyOfAnyHolder(t *testing.T) {
	s, b, c := fleet(t)
	s.Do("SET", "k", "1", "NX", "PX", 20) // the old client's; its job takes longer
	l := acquire(t, c, "k")               // after that has expired
	watched(t, s)
	s.Do("DEL", "k") // the old client is done
	lostSoon(t, l)
	habits(t, b, "k", "deleted or replaced while a lease of this process had time left")
}

// The old client's heartbeat does not compare. As soon as the server reports
// the change, the Backend restores the TTL, so that the key does not end before
// the lease.
func TestSetPexpireShortensALease(t *testing.T) {
	for name, shorten := range map[string]func(*redistest.Server){
		"SetPexpire": func(s *redistest.Server) { s.Do("PEXPIRE", "k", 2000) },
		"BareExpire": func(s *redistest.Server) { s.Do("SETNX", "k", "1"); s.Do("EXPIRE", "k", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			s, b, c := fleet(t)
			l := acquire(t, c, "k")
			watched(t, s)
			shorten(s)
			for deadline := time.After(redistest.Patience); ; {
				left, err := redis.Int64(s.Do("PTTL", "k"), nil)
				if err != nil || left < 0 {
					t.Fatalf("the key ended before the lease (PTTL %d, %v)", left, err)
				}
				if left > 20_000 {
					break
				}
				select {
				case <-deadline:
					t.Fatal("the TTL was not restored")
				case <-time.After(10 * time.Millisecond):
				}
			}
			habits(t, b, "k", "its TTL was changed")
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewalRepairsARemovedOrStretchedTTL(t *testing.T) {
	s, b, _ := fleet(t)
	for what, do := range map[string]func(){
		"removed": func() { s.Do("PERSIST", "k") },
		"changed": func() { s.Do("PEXPIRE", "k", 600_000) },
	} {
		g := try(t, b, "k")
		do()
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Fatal(err)
		}
		habits(t, b, "k", what)
		if left, err := redis.Int64(s.Do("PTTL", "k"), nil); err != nil || left <= 0 ||
			left > ttl.Milliseconds() {
			t.Errorf("PTTL %d, %v", left, err)
		}
		free(t, g)
	}
}

func TestClientsThatCompareShowNoHabits(t *testing.T) {
	s, b, c := fleet(t)
	l := acquire(t, c, "k")
	watched(t, s)
	s.Do("SET", "k", "theirs", "NX", "PX", 1000)
	s.Do("EVAL",
		"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", 1,
		"k", "theirs")
	if err := l.Renew(bg); err != nil {
		t.Error(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
		t.Errorf("habits %q, %v", info.Habits, err)
	}
}

// The repair is a write of the holder's own, which makes the server forget the
// watch, and the next renewal is far away.
func TestKeyIsStillWatchedAfterItsTTLIsRepaired(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	b := openOn(t, s.Pool(), modern.Config{})
	l := acquire(t, client(t, b, lock.Config{TTL: time.Hour}), "k")
	watched(t, s)
	s.Do("PEXPIRE", "k", 60000)
	for s.Do("PTTL", "k").(int64) <= 60000 {
		<-time.After(10 * time.Millisecond)
	}
	s.Do("SET", "k", "thief", "PX", 1000)
	lostSoon(t, l)
	s.Do("DEL", "k")
}

// Another program has written to the queue's own key.
func TestKeyIsReleasedIfItsQueueIsSpoilt(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			for name, cfg := range forms {
				b := openOn(t, s.Pool(), cfg)
				g := try(t, b, "k")
				p := stand(t, b, "k")
				free(t, g)
				g, err := p.Try(bg, ttl)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				s.Do("SET", "gsl:queue::{k}", "x")
				free(t, g)
				if s.Do("EXISTS", "k") != int64(0) {
					t.Errorf("%s: the key was left", name)
				}
				s.Do("FLUSHALL")
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
