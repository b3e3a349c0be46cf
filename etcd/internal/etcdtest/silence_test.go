// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Many attempts at a server that says nothing do not wait for each other, each
// for a whole Config.Timeout.
func TestAttemptsDoNotLineUpAtASilentServer(t *testing.T) {
	t.Parallel()
	const many = 20
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	var asked atomic.Int32
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{mute.Addr().String()},
		Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string,
			in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if ctx.Err() == nil {
				asked.Add(1)
			}
			return next(ctx, method, in, out, conn, opts...)
		})}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b, err := etcd.New(client, etcd.Config{Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			_, err := b.Contract().Try(testContext(t), "stock", long)
			if err == nil || !strings.Contains(err.Error(), "do the servers run") {
				t.Errorf("Try: %v", err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n >= many {
		t.Errorf("%d attempts asked %d times, one after the other", many, n)
	}
}

// A session with a TTL of an hour deletes what a release has left all the same
// within seconds, and Close does not wait for that at a server that is silent.
func TestLongSessionDeletesAndClosesSoon(t *testing.T) {
	t.Parallel()
	const ttl = 9_000_000_000 * time.Second
	c := Start(t, 1)
	var cut Cut
	var silent atomic.Bool
	b, err := etcd.New(c.Client(cut.Into, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context,
			method string, in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
			opts ...grpc.CallOption) error {
			if silent.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx, method, in, out, conn, opts...)
		}))
	}), etcd.Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	take := func(name string) backend.Grant {
		t.Helper()
		g, err := b.Contract().Try(testContext(t), name, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	take("held")
	for _, name := range []string{"first/", "second/"} {
		g := take(strings.TrimSuffix(name, "/"))
		cut.On.Store(true)
		if err := g.Release(testContext(t)); err == nil {
			t.Fatal("a release that was lost")
		}
		if name == "second/" {
			break
		}
		cut.On.Store(false)
		c.emptied(t, name)
	}
	silent.Store(true)
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(Patience / 10):
		t.Error("Close waits for the server")
	}
}
