// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestLeasesReportKeysAndTheirBegin(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{TTL: 10 * time.Second})
		if all, stats := c.Leases(), c.Stats(); len(all) != 0 || stats != (lock.Stats{}) {
			t.Errorf("nothing is held: %+v, %+v", all, stats)
		}
		other, err := c.With(func(cfg *lock.Config) { cfg.TTL = time.Minute })
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a := acquire(t, c, "a")
		time.Sleep(time.Second)
		b := acquire(t, other, "b")
		lost, gone := acquire(t, c, "lost"), acquire(t, c, "gone")
		time.Sleep(time.Second)
		s.Seize("lost", "thief", time.Hour)
		release(t, gone)
		synctest.Wait()
		time.Sleep(time.Hour)
		all := c.Leases()
		if len(all) != 2 || all[0].Key != "a" || all[1].Key != "b" || all[1].Token != b.Token() {
			t.Fatalf("held: %+v", all)
		}
		for i, since := range []time.Duration{0, time.Second} {
			if got := all[i].Since.Sub(began); got != since {
				t.Errorf("%s is held since %v after the beginning, want %v", all[i].Key, got, since)
			}
		}
		if !all[0].Until.Equal(a.Until()) {
			t.Errorf("until %v, want %v", all[0].Until, a.Until())
		}
		if stats := other.Stats(); stats.Leases != 2 || !stats.Oldest.Equal(all[0].Since) {
			t.Errorf("stats %+v", stats)
		}
		release(t, a)
		release(t, b)
		wantErr(t, lost.Release(), lock.ErrLost)
	})
}

// nobody is a backend whose value is a pointer.
type nobody struct {
	backend.Backend
	_ int
}

func TestTwoClientsOnOneBackendAreAnError(t *testing.T) {
	b := &nobody{Backend: locktest.NewStore(lock.Machine).Backend().Contract()}
	if _, err := lock.New(backend.Of(b), lock.Config{TTL: -1}); err == nil {
		t.Fatal("a negative TTL")
	}
	first, err := lock.New(backend.Of(b), lock.Config{}) // the refused Config left it free
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.New(backend.Of(b), lock.Config{}); err == nil ||
		!strings.Contains(err.Error(), "Client.With") {
		t.Errorf("a second Client: %v", err)
	}
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	second, err := lock.New(backend.Of(b), lock.Config{})
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if err := second.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// opened is a Store as a package of a backend has it.
type opened struct{ b backend.Backend }

func (o *opened) Contract() backend.Backend { return o.b }

func TestNilBackendIsAnError(t *testing.T) {
	for name, s := range map[string]backend.Store{
		"nil": nil, "a nil pointer": (*opened)(nil),
		"of nil": backend.Of(nil), "of a nil pointer": backend.Of((*nobody)(nil)),
	} {
		if _, err := lock.New(s, lock.Config{}); err == nil ||
			!strings.Contains(err.Error(), "backend is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
