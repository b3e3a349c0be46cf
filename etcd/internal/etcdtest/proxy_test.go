// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// proxied starts etcd's own grpc-proxy before a cluster, and returns its
// address.
func (c *Cluster) proxied(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	behind := c.Client()
	kv, _ := grpcproxy.NewKvProxy(behind)
	watch, _ := grpcproxy.NewWatchProxy(ctx, zap.NewNop(), behind)
	lease, _ := grpcproxy.NewLeaseProxy(ctx, behind)
	server := grpc.NewServer()
	etcdserverpb.RegisterKVServer(server, kv)
	etcdserverpb.RegisterWatchServer(server, watch)
	etcdserverpb.RegisterLeaseServer(server, lease)
	etcdserverpb.RegisterMaintenanceServer(server, grpcproxy.NewMaintenanceProxy(behind))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		server.Stop()
	})
	return l.Addr().String()
}

// etcd's grpc-proxy numbers watches itself. Each waiter must be woken by the
// key before its own, and no other.
func TestWaitersBehindEtcdsProxyAreWoken(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	at := c.proxied(t)
	b := c.backend(func(cfg *clientv3.Config) { cfg.Endpoints = []string{at} })
	var held []backend.Grant
	var places []backend.Place
	woken := make(chan int, 100)
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		g, err := b.Contract().Try(testContext(t), name, long)
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Contract().(backend.Queuer).Enter(testContext(t), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Try(testContext(t), long); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		if _, _, err := p.Await(testContext(t), func() { woken <- i }); err != nil {
			t.Fatal(err)
		}
		held, places = append(held, g), append(places, p)
	}
	for _, i := range []int{2, 0, 3, 1} {
		if err := held[i].Release(testContext(t)); err != nil {
			t.Error(err)
		}
		if got := <-woken; got != i {
			t.Fatalf("the release of %q woke the waiter for %q", names[i], names[got])
		}
		g, err := places[i].Try(testContext(t), long)
		if err != nil {
			t.Fatal(err)
		}
		extended(t, g)
		if err := g.Release(testContext(t)); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
