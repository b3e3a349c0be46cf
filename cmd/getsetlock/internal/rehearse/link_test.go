// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// linked calls f with a link to a server in memory.
func linked(t *testing.T, f func(*testing.T, *link)) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		dial := Plan{}.embeddedDialer(server, new(sync.WaitGroup))
		l := &link{commands: new(atomic.Int64), sending: func() {},
			dial: func(ctx context.Context, n int) (redis.Conn, error) {
				return dial(ctx, identity{}, n)
			}}
		defer l.cut()
		f(t, l)
	})
}

func TestDeadProgramSendsNothing(t *testing.T) {
	linked(t, func(t *testing.T, l *link) {
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
