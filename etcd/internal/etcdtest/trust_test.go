// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// deposed makes renewals look as if members had answered them in an earlier
// Raft term.
type deposed struct {
	left  atomic.Int64 // renewals still to be changed
	signs atomic.Int64 // renewals seen
	asked atomic.Int64 // elapsed time before the last of them was sent
}

func (d *deposed) into(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(func(ctx context.Context,
		desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := next(ctx, desc, conn, method, opts...)
		if err == nil && strings.HasSuffix(method, "LeaseKeepAlive") {
			return &deposedStream{stream, d}, nil
		}
		return stream, err
	}))
}

type deposedStream struct {
	grpc.ClientStream
	d *deposed
}

func (s *deposedStream) SendMsg(m any) error {
	s.d.asked.Store(int64(backend.ReadClock(context.Background()).Elapsed))
	return s.ClientStream.SendMsg(m)
}

func (s *deposedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if got, ok := m.(*etcdserverpb.LeaseKeepAliveResponse); ok && err == nil {
		s.d.signs.Add(1)
		if s.d.left.Add(-1) >= 0 {
			got.Header.RaftTerm--
		}
	}
	return err
}

// A renewal that is followed by another Raft term does not count: a leader that
// was deposed may have answered it.
func TestRenewalOfAnEarlierTermDoesNotCount(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	var d deposed
	b := c.backend(d.into)
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	before := g.Term().Sent.Elapsed
	d.left.Store(1000)
	_, err = g.Extend(testContext(t), long)
	if err == nil || !strings.Contains(err.Error(), "leader changed") {
		t.Errorf("each renewal is of an earlier term: %v", err)
	}
	d.left.Store(1)
	d.signs.Store(0)
	term, err := g.Extend(testContext(t), long)
	if err != nil || d.signs.Load() != 2 || term.Sent.Elapsed <= before {
		t.Errorf("the first renewal is of an earlier term: %v after %d renewals", err, d.signs.Load())
	}
	if err := g.Release(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Trust counts from before a renewal is sent, and never for longer than etcd
// granted.
func TestTrustCountsFromBeforeTheRenewal(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	var d deposed
	b := c.backend(d.into)
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	before := backend.ReadClock(context.Background()).Elapsed
	term, err := g.Extend(testContext(t), long)
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Duration(d.asked.Load())
	if term.Sent.Elapsed < before || term.Sent.Elapsed > asked || term.TTL != long {
		t.Errorf("%+v, called at %v, sent at %v", term, before, asked)
	}
	if err := errors.Join(g.Release(testContext(t)), b.Close()); err != nil {
		t.Error(err)
	}
}

// withAuth switches on users and passwords, and returns how they change a
// client's Config. The user "worker" may use the names below "jobs/".
func withAuth(t *testing.T, c *Cluster) func(*clientv3.Config) {
	t.Helper()
	own, ctx := c.Client(), testContext(t)
	steps := []func() error{
		func() error { _, err := own.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := own.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := own.RoleAdd(ctx, "jobs"); return err },
		func() error {
			_, err := own.RoleGrantPermission(ctx, "jobs", "jobs/", clientv3.GetPrefixRangeEnd("jobs/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := own.UserAdd(ctx, "worker", "secret"); return err },
		func() error { _, err := own.UserGrantRole(ctx, "worker", "jobs"); return err },
		func() error { _, err := own.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "worker", "secret" }
}

// etcd's tokens end while the lock is held and awaited. A simple token is known
// to one member's memory; a JWT is checked by its signature, and says itself
// when it ends.
func TestLocksOutliveTokensOfAUser(t *testing.T) {
	t.Parallel()
	for name, tokens := range map[string]func(*embed.Config){
		"simple": func(cfg *embed.Config) { cfg.AuthTokenTTL = 1 },
		"JWT": func(cfg *embed.Config) {
			a := newAuthority(t)
			a.issue("tokens")
			cfg.AuthToken = fmt.Sprintf("jwt,sign-method=ES256,ttl=1s,pub-key=%s,priv-key=%s",
				a.file("tokens"), a.file("tokens-key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outliveTokens(t, Start(t, 1, tokens, func(cfg *embed.Config) { cfg.BcryptCost = 4 }))
		})
	}
}

func outliveTokens(t *testing.T, c *Cluster) {
	t.Helper()
	user := withAuth(t, c)
	var renewed atomic.Int64
	locks, _ := c.locks(t, lock.Config{TTL: 3 * time.Second,
		Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}}, user)
	other, _ := c.locks(t, lock.Config{TTL: 3 * time.Second}, user)
	held := acquire(t, locks, "jobs/nightly")
	waiting := other.Request(testContext(t), "jobs/nightly")
	await(t, "renewals with new tokens", func() bool { return renewed.Load() >= 3 })
	root := c.Client(func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "root", "secret" })
	if _, err := root.UserAdd(testContext(t), "another", "secret"); err != nil { // ends JWTs of before
		t.Fatal(err)
	}
	before := renewed.Load()
	await(t, "renewals after a change of the users", func() bool { return renewed.Load() >= before+2 })
	release(t, held)
	if r := <-waiting; r.Err != nil {
		t.Error(r.Err)
	} else {
		release(t, r.Lease)
	}
	_, err := locks.Acquire(testContext(t), "stock")
	if err == nil || !strings.Contains(err.Error(), `rights on the keys that begin with "stock/"`) {
		t.Errorf("a name without rights: %v", err)
	}
	_, err = etcd.Open(testContext(t), c.Endpoints(), etcd.Options{
		Client: clientv3.Config{Username: "worker", Password: "wrong", Logger: zap.NewNop()}})
	if err == nil || !strings.Contains(err.Error(), "check user and password") {
		t.Errorf("a wrong password: %v", err)
	}
}
