// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// opening is when a rehearsal begins by its clocks. Bubbles begin in the year
// 2000, and stamps should look like today's.
var opening = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// rehearseEmbedded runs the plan on a server in memory. It is called inside a
// testing/synctest bubble, where time moves when every goroutine waits. All
// that it starts has ended when it returns.
func rehearseEmbedded(ctx context.Context, p Plan, watch func(*book)) (*Result, error) {
	time.Sleep(time.Until(opening))
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	var wires sync.WaitGroup
	defer func() {
		server.Server().Close() // after its last client: INFO reads without a lock what Close writes
		server.Close()
		wires.Wait() // for messages that are still under way
	}()
	f, err := newFleet(p, "rehearsal:", p.embeddedDialer(server, &wires))
	if err != nil {
		return nil, err
	}
	watch(f.book)
	if err := f.work(ctx); err != nil {
		return nil, err
	}
	virtual := f.now()
	res, err := f.report(ctx)
	if err != nil {
		return nil, err
	}
	res.Server, res.VirtualMS = "embedded", new(millis(virtual))
	return res, nil
}

func (p Plan) embeddedDialer(server *miniredis.Miniredis, wires *sync.WaitGroup) dialer {
	return func(ctx context.Context, who identity, n int) (redis.Conn, error) {
		pipe := func(context.Context, string, string) (net.Conn, error) {
			c, err := server.Dial()
			if err != nil || who == nobody {
				return c, err
			}
			// Two programs' messages that are sent at one instant must not
			// arrive at one instant.
			return slowly(c, wires, p.Latency, time.Duration(who.slot),
				p.rand(streamWire, who.slot<<32|who.life<<16|n)), nil
		}
		return redis.DialContext(ctx, "tcp", "embedded", redis.DialContextFunc(pipe))
	}
}
