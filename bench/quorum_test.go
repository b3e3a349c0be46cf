package main

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncServers returns three embedded servers, and redsync's way to them.
func redsyncServers(t *testing.T) (servers []*miniredis.Miniredis, pools []redsyncredis.Pool) {
	for range 3 {
		s := miniredis.RunT(t)
		client := redis.NewClient(&redis.Options{Addr: s.Addr()})
		t.Cleanup(func() { client.Close() })
		servers, pools = append(servers, s), append(pools, redsyncgoredis.NewPool(client))
	}
	return servers, pools
}

// The context ends when one server has granted and the others have not answered
// yet. The undo uses the context that has ended, so it reaches no server.
func TestRedsyncLeavesVotesWhenItsContextEnds(t *testing.T) {
	servers, pools := redsyncServers(t)
	ctx, cancel := context.WithCancel(t.Context())
	granted := make(chan struct{})
	mutex := redsync.New(grantingPool{pools[0], granted}, latePool{pools[1], granted, cancel},
		latePool{pools[2], granted, cancel}).NewMutex("stock:42")
	if err := mutex.LockContext(ctx); err == nil {
		t.Fatal("it has the lock")
	}
	if !servers[0].Exists("stock:42") {
		t.Error("redsync has undone its vote: docs/quorum.md says it does not")
	}
}

// grantingPool closes granted when its server has answered the first SET.
type grantingPool struct {
	redsyncredis.Pool
	granted chan struct{}
}

func (p grantingPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	c, err := p.Pool.Get(ctx)
	return grantingConn{c, p.granted}, err
}

type grantingConn struct {
	redsyncredis.Conn
	granted chan struct{}
}

func (c grantingConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	ok, err := c.Conn.SetNX(name, value, expiry)
	select {
	case <-c.granted:
	default:
		close(c.granted)
	}
	return ok, err
}

// latePool ends a context once another server has granted, and connects then.
type latePool struct {
	redsyncredis.Pool
	granted <-chan struct{}
	end     context.CancelFunc
}

func (p latePool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	<-p.granted
	p.end()
	return p.Pool.Get(ctx)
}
