// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// transcript is a log that a test reads while it grows.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A wait that nothing bounds may never end: the key may be a foreign value that
// nobody deletes.
func TestLongWaitNamesWhatItWaitsForOnce(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration
		lines int
	}{"unbounded": {0, 1}, "bounded": {time.Minute, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *locktest.Store) {
				var said transcript
				client := client(t, s.Full(), lock.Config{
					Wait: c.wait, Logger: slog.New(slog.NewTextHandler(&said, nil))})
				s.Seize("k", "another program", 30*time.Second)
				got := make(chan *lock.Lease)
				go func() { got <- acquire(t, client, "k") }()
				time.Sleep(5*time.Second - time.Millisecond)
				synctest.Wait()
				if text := said.String(); text != "" {
					t.Errorf("too early: %s", text)
				}
				release(t, <-got)
				text := said.String()
				if n := strings.Count(text, "still waiting"); n != c.lines ||
					n > 0 && !strings.Contains(text, "another program") {
					t.Errorf("the log says:\n%s", text)
				}
			})
		})
	}
}
