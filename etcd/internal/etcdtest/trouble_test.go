// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/internal/testing/door"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// refused opens etcd, which must fail. The error must say what to do.
func refused(t *testing.T, what, want string, secured *tls.Config, endpoints ...string) {
	t.Helper()
	locks, err := etcd.Open(testContext(t), endpoints, etcd.Options{
		Client:  clientv3.Config{Logger: zap.NewNop(), TLS: secured},
		Backend: etcd.Config{Timeout: 500 * time.Millisecond}})
	if err == nil {
		t.Errorf("%s: no error", what)
		_ = locks.Close(testContext(t))
	} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), endpoints[0]) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v", what, err)
	}
}

// etcd has a certificate of an authority of its own, and asks clients for one.
func TestLocksWorkOverTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("server")
	pair := a.issue("client")
	c := Start(t, 1, func(cfg *embed.Config) {
		cfg.ListenClientUrls[0].Scheme = "https"
		cfg.ClientTLSInfo = transport.TLSInfo{CertFile: a.file("server"), KeyFile: a.file("server-key"),
			TrustedCAFile: a.file("authority"), ClientCertAuth: true}
	})
	at := c.Endpoints()[0]
	var renewed atomic.Int64
	open := func() *lock.Client {
		locks, err := etcd.Open(testContext(t), []string{"https://" + at}, etcd.Options{
			Client: clientv3.Config{TLS: a.trusts(pair), Logger: zap.NewNop()},
			Lock: lock.Config{TTL: etcd.LeastTTL,
				Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}}})
		if err != nil {
			t.Fatal(err)
		}
		return locks
	}
	ours, theirs := open(), open()
	held := acquire(t, ours, "stock")
	waiting := theirs.Request(testContext(t), "stock")
	await(t, "a renewal", func() bool { return renewed.Load() > 0 })
	release(t, held)
	if r := <-waiting; r.Err != nil {
		t.Error(r.Err)
	} else {
		release(t, r.Lease)
	}
	if err := errors.Join(ours.Close(testContext(t)), theirs.Close(testContext(t))); err != nil {
		t.Error(err)
	}
	refused(t, "no certificate of the client", "a certificate of your own", a.trusts(), "https://"+at)
	refused(t, "another authority", "the authority that signed", newAuthority(t).trusts(pair), "https://"+at)
	refused(t, "no TLS", "write https://", nil, "http://"+at)
}

func TestOpenNamesAnAddressThatIsNoEtcd(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	other := grpc.NewServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = other.Serve(l) }()
	t.Cleanup(other.Stop)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	refused(t, "a web server", "does not speak etcd's protocol", nil, web.Listener.Addr().String())
	refused(t, "another gRPC server", "no etcd of version 3", nil, l.Addr().String())
	refused(t, "a silent server", "etcd's address for clients?", nil, mute.Addr().String())
	refused(t, "nothing", "connection refused", nil, "127.0.0.1:1")
	_, err = etcd.Open(testContext(t), []string{mute.Addr().String()}, etcd.Options{
		Client:  clientv3.Config{Logger: zap.NewNop(), Username: "worker", Password: "secret"},
		Backend: etcd.Config{Timeout: 500 * time.Millisecond}})
	if err == nil || !strings.Contains(err.Error(), "etcd's address for clients?") {
		t.Errorf("a silent server that is to check a password: %v", err)
	}
	c := Start(t, 1)
	refused(t, "TLS where etcd has none", "write http://", new(tls.Config), "https://"+c.Endpoints()[0])
}

// pretend makes every server look like one of another version.
func pretend(version string) func(*clientv3.Config) {
	return func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context,
			method string, in, out any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
			opts ...grpc.CallOption) error {
			err := next(ctx, method, in, out, conn, opts...)
			if said, ok := out.(*etcdserverpb.StatusResponse); ok {
				said.Version = version
			}
			return err
		}))
	}
}

// logged is a log that several goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The log names servers whose version may renew a lease that was revoked.
func TestServersThatMayGrantTwiceAreNamed(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	for version, want := range map[string]string{
		"3.4.37": "3.4.38", "3.5.22": "3.5.23", "3.6.4": "3.6.5",
		"3.4.38": "", "3.5.23": "", "3.6.5": "", "3.7.0": "", "4.0.0": "",
	} {
		var log logged
		logger := slog.New(slog.NewTextHandler(&log, nil))
		var n counted
		b, err := etcd.New(c.Client(pretend(version), n.into), etcd.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the log names it once
			g, err := b.Contract().Try(testContext(t), "stock", long)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Release(testContext(t)); err != nil {
				t.Error(err)
			}
		}
		// The first answer is for the attempt, the second one for the log.
		await(t, "the answer of "+version, func() bool { return n.versions.Load() >= 2 })
		if err := b.Close(); err != nil { // it waits for the log
			t.Error(err)
		}
		if got := log.String(); !strings.Contains(got, want) || want == "" && got != "" ||
			want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, c.Endpoints()[0]) ||
				!strings.Contains(got, version)) {
			t.Errorf("%s: %q", version, got)
		}
	}
}

func TestServersThatAreTooOldAreRefused(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	const want = "runs etcd 3.3.27; locks need 3.4 or later: upgrade it"
	var old clientv3.Config
	pretend("3.3.27")(&old)
	old.Logger = zap.NewNop()
	_, err := etcd.Open(testContext(t), c.Endpoints(), etcd.Options{Client: old})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v", err)
	}
	locks, _ := c.locks(t, lock.Config{TTL: long}, pretend("3.3.27"))
	for range 2 { // it is asked again each time, and no attempt waits
		_, err := locks.Acquire(testContext(t), "stock")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Acquire: %v", err)
		}
	}
	if keys := c.Keys(""); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
}

// A load balancer stands before three members. It ends every connection, and
// leads the next ones to another member.
func TestLocksOutliveABalancersConnections(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	balancer := door.New(t, c.Endpoints()...)
	var renewed atomic.Int64
	open := func() *lock.Client {
		locks, err := etcd.Open(testContext(t), []string{balancer.Addr}, etcd.Options{
			Client: clientv3.Config{Logger: zap.NewNop()},
			Lock: lock.Config{TTL: 10 * time.Second, RenewEvery: 100 * time.Millisecond,
				Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := locks.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		})
		return locks
	}
	ours, theirs := open(), open()
	held := acquire(t, ours, "stock")
	waiting := theirs.Request(testContext(t), "stock")
	await(t, "the waiter's key", func() bool { return len(c.Keys("stock/")) == 2 })
	for range 60 { // many a call is under way when its connection ends
		balancer.Break()
		<-time.After(50 * time.Millisecond)
	}
	before := renewed.Load()
	await(t, "renewals through new connections", func() bool { return renewed.Load() >= before+2 })
	if err := held.Err(); err != nil {
		t.Error(err)
	}
	release(t, held)
	balancer.Break() // perhaps before the waiter was woken
	if r := <-waiting; r.Err != nil {
		t.Error(r.Err)
	} else {
		_ = r.Lease.Release() // its connection may have ended; then it goes on
	}
	c.emptied(t, "stock/")
}

// A server may allow fewer operations in a transaction than the renewal of a
// hundred locks has.
func TestRenewalNamesTheLimitOfOperations(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, func(cfg *embed.Config) { cfg.MaxTxnOps = 2 })
	b := c.backend()
	var held []backend.Grant
	for _, name := range []string{"a", "b", "c"} {
		g, err := b.Contract().Try(testContext(t), name, long)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, g)
	}
	_, errs := b.Contract().(backend.BatchExtender).ExtendAll(testContext(t), held, long)
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "--max-txn-ops") {
		t.Error(errs[0])
	}
	for _, g := range held {
		if err := g.Release(testContext(t)); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
