// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// A thousand leases cannot be renewed for half a minute, and their releases
// fail.
func TestOutageWritesFewLogLines(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		var text journal
		c := newClient(t, s.Backend(),
			lock.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		var leases []*lock.Lease
		for i := range 1000 {
			leases = append(leases, acquire(t, c, fmt.Sprint("k", i)))
		}
		s.Order(locktest.Fault{Op: "extend", Err: errServer})
		s.Order(locktest.Fault{Op: "release", Err: errServer})
		time.Sleep(40 * time.Second)
		// Renewals are due every 20 s: one line at once, and one that counts
		// the others.
		if n := strings.Count(text.String(), "lease not renewed"); n < 1 || n > 2 {
			t.Errorf("%d lines about renewals: %.2000s", n, text.String())
		}
		var wg sync.WaitGroup
		for _, l := range leases {
			wg.Go(func() { _ = l.Release() })
		}
		wg.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := strings.Count(text.String(), "could not be given back"); n < 2 || n > 40 {
			t.Errorf("%d lines about keys: %.2000s", n, text.String())
		}
	})
}

// The Config has no Logger, and only this line says why the key is held.
func TestKeyThatStaysTakenIsLoggedByDefault(t *testing.T) {
	var text journal
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Backend(), lock.Config{TTL: 10 * time.Second})
		l := acquire(t, c, "stuck")
		s.Order(locktest.Fault{Op: "release", Err: errServer})
		s.Order(locktest.Fault{Op: "extend", Err: errServer})
		time.Sleep(5 * time.Second)
		notErr(t, l.Release(), lock.ErrLost)
		time.Sleep(time.Minute)
	})
	if n := strings.Count(text.String(), "\n"); n != 1 || !strings.Contains(text.String(), "key=stuck") {
		t.Errorf("the default log has %d lines: %s", n, text.String())
	}
}
