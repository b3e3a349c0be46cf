// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A crash can cut a command short, but it never sends one twice and never
// connects anew. The clients here send all the time, so that many of them die
// in the middle of a command.
func TestDyingClientSendsNothingMore(t *testing.T) {
	const deaths = 200
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	monitor := must[redis.Conn](t)(redis.Dial("tcp", s.Addr()))
	defer monitor.Close()
	if _, err := monitor.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	for i := range deaths {
		c := SharedClient(t, s.Addr())
		check(t, c.Lock(ctx, Jar, fmt.Sprint(key, i), time.Hour, time.Minute))
		loop := must[*Loop](t)(c.StartLoop(ctx, fmt.Sprint("counter", i), 0, 1_000_000))
		must[int](t)(loop.Reach(ctx, 3+i%5))
		check(t, c.Die(ctx))
	}
	s.Do("SET", "all", "dead")
	sent, last, owner := 0, map[string]string{}, map[string]string{}
	for {
		line := must[string](t)(redis.String(monitor.Receive()))
		_, rest, _ := strings.Cut(line, "[")
		from, command, _ := strings.Cut(rest, "] ")
		if command == `"SET" "all" "dead"` {
			break
		}
		sent++
		if !strings.HasPrefix(command, `"GET"`) && command == last[from] {
			t.Errorf("%s sent twice: %s", from, command)
		}
		last[from] = command
		if verb, lock, _ := strings.Cut(command, " "); verb == `"SETNX"` {
			lock, _, _ = strings.Cut(lock, " ")
			if owner[lock] == "" {
				owner[lock] = from
			} else if owner[lock] != from {
				t.Errorf("%s was cut, and sent %s from %s", owner[lock], command, from)
			}
		}
	}
	if sent < 3*deaths {
		t.Fatalf("only %d commands were seen", sent)
	}
}
