//go:build real

package modern_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersIncreaseOnEveryServer lets two processes draw in turn. Their own
// clocks stand still, so each goes on counting from where it once read the
// server's.
func TestNumbersIncreaseOnEveryServer(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			still := redistest.New(t).Clock(redistest.Skew{})
			var clients []*lock.Client
			for range 2 {
				b, err := modern.New(s.Pool(), modern.Config{Fence: true})
				if err != nil {
					t.Fatal(err)
				}
				clients = append(clients, client(t, b, lock.Config{Clock: still}))
			}
			last := int64(0)
			for i := range 30 {
				l := acquire(t, clients[i%3%2], fmt.Sprint("k", i%4))
				fence, ok := l.Fence()
				if !ok || fence <= last {
					t.Errorf("%d after %d", fence, last)
				}
				last = fence
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
			// An old server is first asked by a script, which it refuses.
			if n := executed(t, s, "time"); n > 2*len(clients) {
				t.Errorf("the server's clock was read %d times", n)
			}
		})
	}
}

// executed is how often the server has executed a command since it was started
// or its statistics were reset.
func executed(t *testing.T, s *redistest.Server, command string) (n int) {
	t.Helper()
	text, err := redis.String(s.Do("INFO", "commandstats"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			if _, err := fmt.Sscan(strings.Split(rest, ",")[0], &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}
