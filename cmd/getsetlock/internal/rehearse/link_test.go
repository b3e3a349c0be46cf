// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
)

// linked calls f with a link to a server in memory, and the counter of its
// commands.
func linked(t *testing.T, latency string, f func(*testing.T, *link, *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		p := Plan{Latency: must(dist.Parse(latency))}
		dial := p.embeddedDialer(server, new(sync.WaitGroup))
		var commands atomic.Int64
		l := &link{commands: &commands, sending: func() {},
			dial: func(ctx context.Context, n int) (redis.Conn, error) {
				return dial(ctx, identity{}, n)
			}}
		defer l.cut()
		f(t, l, &commands)
	})
}

func TestMessagesTakeTheirLatencyBothWays(t *testing.T) {
	linked(t, "3ms", func(t *testing.T, l *link, _ *atomic.Int64) {
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			began := time.Now()
			if _, err := c.Do("PING"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 6*time.Millisecond {
				t.Errorf("there and back took %v", took)
			}
		}
	})
}

func TestEveryCommandIsCountedOnce(t *testing.T) {
	linked(t, "0s", func(t *testing.T, l *link, commands *atomic.Int64) {
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Do("SET", "a", 1)
		redis.DoContext(c, t.Context(), "GET", "a")
		redis.DoWithTimeout(c, time.Second, "GET", "a")
		c.Send("GET", "a")
		c.Send("GET", "a")
		c.Flush()
		c.Receive()
		redis.ReceiveWithTimeout(c, time.Second)
		c.Do("")
		redis.NewScript(1, "return redis.call('GET', KEYS[1])").Do(c, "a") // EVALSHA, then EVAL
		if n := commands.Load(); n != 7 {
			t.Errorf("%d commands counted, 7 were sent", n)
		}
	})
}

func TestDeadProgramSendsNothing(t *testing.T) {
	linked(t, "1ms", func(t *testing.T, l *link, _ *atomic.Int64) {
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Do("SET", "a", 1)
		l.cut()
		if _, err := c.Do("SET", "a", 2); err == nil {
			t.Error("a dead program's command was answered")
		}
		if _, err := l.Dial(t.Context()); !errors.Is(err, errDead) {
			t.Errorf("a dead program dialled: %v", err)
		}
		l.dead = false
		c, err = l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := redis.Int(c.Do("GET", "a")); n != 1 || err != nil {
			t.Errorf("the server has %d, %v", n, err)
		}
	})
}
