// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// A login costs etcd a hash of the password that is slow on purpose, and etcd's
// client logs in for each stream.
func TestRenewalsOfAUserNeedNoLogin(t *testing.T) {
	t.Parallel()
	c := Start(t, 1) // with the default cost of a hash
	var n counted
	var renewed atomic.Int64
	locks, _ := c.locks(t, lock.Config{TTL: time.Minute, RenewEvery: 500 * time.Millisecond,
		Hooks: lock.Hooks{Renewed: func(lock.Event) { renewed.Add(1) }}}, withAuth(t, c), n.into)
	const many = 10
	for i := range many {
		defer release(t, acquire(t, locks, "jobs/"+string(rune('a'+i))))
	}
	renewals := func() bool { return renewed.Load() >= many }
	await(t, "a renewal of each lease", renewals)
	logins, streams := n.logins.Load(), n.streams.Load()
	for range 5 {
		renewed.Store(0)
		await(t, "a renewal of each lease", renewals)
	}
	if more := n.logins.Load() - logins; more > 0 || streams != 1 || n.streams.Load() != 1 {
		t.Errorf("%d logins for 5 renewals of %d leases, %d streams", more, many, n.streams.Load())
	}
}

// tardy holds the reply to one sign of life back, until another one is sent on
// the same stream, which it swallows. Or it ends the stream at the next sign of
// life.
type tardy struct {
	on     atomic.Bool
	breaks atomic.Bool
	opened atomic.Int64
	last   atomic.Int64  // elapsed time when the last one was passed on to etcd
	sent   chan struct{} // capacity 1: filled when a reply is to be held back
	hold   chan struct{}
	free   sync.Once // closes hold
}

func newTardy() *tardy { return &tardy{sent: make(chan struct{}, 1), hold: make(chan struct{})} }

func (l *tardy) release() { l.free.Do(func() { close(l.hold) }) }

func (l *tardy) into(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(func(ctx context.Context,
		desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if !strings.HasSuffix(method, "LeaseKeepAlive") {
			return next(ctx, desc, conn, method, opts...)
		}
		l.opened.Add(1)
		life, end := context.WithCancel(ctx)
		stream, err := next(life, desc, conn, method, opts...)
		return &tardyStream{ClientStream: stream, l: l, end: end}, err
	}))
}

type tardyStream struct {
	grpc.ClientStream
	l    *tardy
	end  context.CancelFunc
	late atomic.Bool // a reply is held back
}

func (s *tardyStream) SendMsg(m any) error {
	if s.l.breaks.Swap(false) {
		s.end()
		return io.EOF
	}
	if s.late.Load() {
		s.l.release()
		return nil
	}
	if s.l.on.Swap(false) {
		s.late.Store(true)
		s.l.sent <- struct{}{}
	}
	s.l.last.Store(int64(backend.ReadClock(context.Background()).Elapsed))
	return s.ClientStream.SendMsg(m)
}

func (s *tardyStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.late.Load() {
		<-s.l.hold
	}
	return err
}

// A reply names no message. Taken for that to a later message, a late one would
// make trust begin after etcd had renewed the lease.
func TestLateReplyIsNotThatToALaterSign(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	l := newTardy()
	b := c.backend(l.into)
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Extend(testContext(t), long); err != nil {
		t.Fatal(err)
	}
	l.on.Store(true)
	brief, cancel := context.WithCancel(testContext(t))
	go func() {
		<-l.sent
		cancel()
	}()
	if _, err := g.Extend(brief, long); !errors.Is(err, context.Canceled) {
		t.Fatalf("a renewal without a reply: %v", err)
	}
	term, err := g.Extend(testContext(t), long)
	if last := time.Duration(l.last.Load()); err != nil || term.Sent.Elapsed > last {
		t.Errorf("trust begins %v after etcd was asked: %v", term.Sent.Elapsed-last, err)
	}
	if n := l.opened.Load(); n != 2 {
		t.Errorf("%d streams", n)
	}
	l.release()
	if err := errors.Join(g.Release(testContext(t)), b.Close()); err != nil {
		t.Error(err)
	}
}

// A stream may end at any time: its server restarts, or its user's token ends.
// The renewal that finds out is sent again at once, on a new stream.
func TestRenewalSurvivesTheEndOfItsStream(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	l := newTardy()
	b := c.backend(l.into)
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	for streams := range 3 {
		term, err := g.Extend(testContext(t), long)
		if last := time.Duration(l.last.Load()); err != nil || term.Sent.Elapsed > last {
			t.Errorf("trust begins %v after etcd was asked: %v", term.Sent.Elapsed-last, err)
		}
		if n := l.opened.Load(); n != int64(streams)+1 {
			t.Errorf("%d streams, not %d", n, streams+1)
		}
		l.breaks.Store(true)
	}
	l.breaks.Store(false)
	if err := errors.Join(g.Release(testContext(t)), b.Close()); err != nil {
		t.Error(err)
	}
}

// A renewal by etcd's grpc-proxy, which it makes on its own account, may be
// older than the message that it answers. So each message gets a stream of its
// own.
func TestEachSignThroughEtcdsProxyHasAStream(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	at := c.proxied(t)
	var n counted
	b := c.backend(func(cfg *clientv3.Config) { cfg.Endpoints = []string{at} }, n.into)
	g, err := b.Contract().Try(testContext(t), "stock", long)
	if err != nil {
		t.Fatal(err)
	}
	var asked int64
	for range 3 {
		asked += extended(t, g)
	}
	if streams, signs := n.streams.Load(), n.signs.Load(); streams != asked || signs != asked+1 {
		t.Errorf("%d streams, %d messages for %d renewals", streams, signs, asked)
	}
	if err := errors.Join(g.Release(testContext(t)), b.Close()); err != nil {
		t.Error(err)
	}
}

// extended renews a grant through etcd's grpc-proxy, and returns how often it
// had to ask. A message that comes while the proxy still tears down the stream
// of the one before is answered a third of the TTL later.
func extended(t *testing.T, g backend.Grant) (asked int64) {
	t.Helper()
	await(t, "a renewal through the proxy", func() bool {
		brief, cancel := context.WithTimeout(testContext(t), 3*time.Second)
		defer cancel()
		asked++
		_, err := g.Extend(brief, long)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	return asked
}

// muting makes the next stream of signs of life swallow all of them.
type muting struct {
	next  atomic.Bool
	life  atomic.Pointer[context.CancelFunc] // of the last stream
	muted chan struct{}                      // closed when one was swallowed
}

func (l *muting) into(cfg *clientv3.Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(func(ctx context.Context,
		desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if !strings.HasSuffix(method, "LeaseKeepAlive") {
			return next(ctx, desc, conn, method, opts...)
		}
		life, end := context.WithCancel(ctx)
		l.life.Store(&end)
		stream, err := next(life, desc, conn, method, opts...)
		if l.next.Swap(false) {
			stream = &mutedStream{stream, l}
		}
		return stream, err
	}))
}

type mutedStream struct {
	grpc.ClientStream
	by *muting
}

func (s *mutedStream) SendMsg(any) error {
	close(s.by.muted) // only the question of a new stream is sent on this one
	return nil
}

// TestSilentNewStreamDelaysNoOtherSession: a session with a long TTL waits for
// its answer longer than another one lasts.
func TestSilentNewStreamDelaysNoOtherSession(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	l := &muting{muted: make(chan struct{})}
	b := c.backend(l.into)
	ctx := testContext(t)
	slow, err := b.Contract().Try(ctx, "slow", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := b.Contract().Try(ctx, "fast", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	extended(t, slow) // now there is a stream
	l.next.Store(true)
	(*l.life.Load())()
	waits := make(chan error, 1)
	asks, end := context.WithCancel(ctx)
	go func() {
		_, err := slow.Extend(asks, 30*time.Second)
		waits <- err
	}()
	<-l.muted
	if _, err := fast.Extend(ctx, 5*time.Second); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waits:
		t.Errorf("the other session's renewal waited for the silent stream: %v", err)
	default:
	}
	end()
	if err := <-waits; err == nil {
		t.Error("the silent stream has answered")
	}
}
