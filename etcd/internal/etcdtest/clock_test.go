// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/internal/testing/door"
	"github.com/getsetlock/getsetlock/lock"
)

// slowClock runs slower than this machine's, by which etcd counts its leases.
// Its wall clock can be set.
type slowClock struct {
	began time.Time
	rate  float64
	shift atomic.Int64
}

func (c *slowClock) Elapsed() time.Duration {
	return time.Duration(c.rate * float64(time.Since(c.began)))
}

func (c *slowClock) Now() time.Time {
	return c.began.Add(c.Elapsed() + time.Duration(c.shift.Load())).Round(0)
}

func (c *slowClock) After(d time.Duration) <-chan time.Time {
	return time.After(time.Duration(float64(d) / c.rate))
}

// A client's clock runs slower than etcd's, by less than Config.Margin, and its
// wall clock is set back and forth. The client is cut off. When etcd reports
// that the key is gone, trust is over.
func TestTrustEndsInTimeByASlowClock(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	own := c.Client()
	for name, step := range map[string]time.Duration{
		"steady": 0, "back": -24 * time.Hour, "forth": 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := door.New(t, c.Endpoints()[0])
			clock := &slowClock{began: time.Now(), rate: 0.92}
			locks, err := etcd.Open(testContext(t), []string{way.Addr}, etcd.Options{
				Client:  clientv3.Config{Logger: zap.NewNop()},
				Backend: etcd.Config{Clock: clock},
				Lock:    lock.Config{TTL: 3 * time.Second, Clock: clock}})
			if err != nil {
				t.Fatal(err)
			}
			held := acquire(t, locks, name)
			at, err := own.Get(testContext(t), name+"/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			gone := own.Watch(testContext(t), name+"/", clientv3.WithPrefix(), clientv3.WithFilterPut(),
				clientv3.WithRev(at.Header.Revision+1))
			open := way.Hold("")
			clock.shift.Store(int64(step))
			if reply := <-gone; len(reply.Events) != 1 {
				t.Fatalf("%+v", reply)
			}
			if err := held.Err(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("the key is gone, and the lease is trusted: %v", err)
			}
			open()
			if err := locks.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
