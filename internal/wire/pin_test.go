// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The connection is retired, and the reply to the first command has not come.
func TestCommandBehindAnotherFollowsItOnItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gate := redistest.NewGate()
		m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)}), Options{})
		works(t, m)
		time.Sleep(2 * m.Timeout()) // a young connection is not retired
		ctx, cancel := context.WithTimeout(bg, m.Timeout()/2)
		defer cancel()
		_, err := m.Do(ctx, "SET", "k", "v")
		pending := unknown(t, err, context.DeadlineExceeded)
		if _, _, known := pending.Reply(); known {
			t.Error("the reply is known")
		}
		works(t, m) // on another connection
		go func() {
			synctest.Wait()
			gate.Open()
		}()
		if n, err := redis.Int(pending.Behind().Do(bg, "DEL", "k")); n != 1 || err != nil {
			t.Errorf("behind the SET, DEL deleted %d, %v", n, err)
		}
		if v, err, known := pending.Reply(); v != "OK" || err != nil || !known {
			t.Errorf("the late reply is %v, %v, known %v", v, err, known)
		}
		_, err = pending.Behind().Do(bg, "DEL", "k") // the connection has ended with its last reply
		notSent(t, err, ErrLost)
	})
}
