// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"runtime"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// The context ends when one server has granted and the others have not answered
// yet. The undo uses the context that has ended, so it reaches no server.
func TestRedsyncLeavesVotesWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := miniredis.RunT(t)
	var pools []redsyncredis.Pool
	for _, s := range []*miniredis.Miniredis{first, miniredis.RunT(t), miniredis.RunT(t)} {
		client := redis.NewClient(&redis.Options{Addr: s.Addr()})
		t.Cleanup(func() { client.Close() })
		pool := redsyncgoredis.NewPool(client)
		if s != first {
			pool = latePool{pool, first, cancel}
		}
		pools = append(pools, pool)
	}
	if err := redsync.New(pools...).NewMutex("stock:42").LockContext(ctx); err == nil {
		t.Fatal("it has the lock")
	}
	if !first.Exists("stock:42") {
		t.Error("redsync has undone its vote: docs/guide/quorum.md says it does not")
	}
}

// latePool ends a context once the first server has granted, and connects then.
type latePool struct {
	redsyncredis.Pool
	first *miniredis.Miniredis
	end   context.CancelFunc
}

func (p latePool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	for !p.first.Exists("stock:42") {
		runtime.Gosched()
	}
	p.end()
	return p.Pool.Get(ctx)
}
