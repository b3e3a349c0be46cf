// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// signs carries the signs of life of all sessions of a Backend on one long
// stream. Where etcd has users, etcd's client logs in for each new stream, and
// a login costs the server much: the hash of a password is slow on purpose.
type signs struct {
	b *engine

	mu     sync.Mutex
	stream *stream // may have ended; nil: none yet
	proxy  bool    // a grpc-proxy answered
}

// stream is one stream of signs of life. etcd carries out the messages of a
// stream one after the other, and answers each once. But a reply names only the
// lease, and not the message. So a lease has at most one unanswered message on
// a stream: a sender that gives up ends the stream. Else a late reply could be
// taken for that to a later message, and the lease be trusted for too long.
type stream struct {
	etcdserverpb.Lease_LeaseKeepAliveClient
	once   bool            // to be used for one message
	life   context.Context // ends with the stream, at the latest
	cancel context.CancelFunc
	ended  chan struct{} // closed when no more replies come
	err    error         // why; read it after ended

	mu      sync.Mutex // also of Send
	waiting map[int64]chan *etcdserverpb.LeaseKeepAliveResponse
	used    bool // a message was answered
}

// noLease is a lease that does not exist. etcd answers that it lasts for
// another 0 s.
const noLease = -1

// open returns the stream, a new one if there is none. Sessions that find none
// at the same time each open one, and the first is kept. So none waits for
// another one's time limit.
//
// etcd's grpc-proxy renews a lease on its own account for as long as a stream
// that asked for it is open, and answers a later message with whatever renewal
// comes next, which may have been sent before the message. It is recognized by
// its answer for a lease that does not exist. Such a proxy gets a stream for
// each message.
func (s *signs) open(ctx context.Context) (*stream, error) {
	s.mu.Lock()
	st, proxy := s.stream, s.proxy
	s.mu.Unlock()
	if st.alive() {
		return st, nil
	}
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(s.b.Life))
	defer context.AfterFunc(ctx, cancel)()
	opened, err := clientv3.RetryLeaseClient(s.b.client).LeaseKeepAlive(life)
	if err == nil && !proxy {
		if err = opened.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: noLease}); err == nil {
			var got *etcdserverpb.LeaseKeepAliveResponse
			got, err = opened.Recv()
			proxy = err == nil && got.TTL != 0
		}
	}
	if err != nil {
		cancel()
		return nil, rpctypes.Error(err)
	}
	return s.begin(&stream{Lease_LeaseKeepAliveClient: opened, once: proxy, life: life, cancel: cancel,
		ended: make(chan struct{}), waiting: map[int64]chan *etcdserverpb.LeaseKeepAliveResponse{}})
}

// alive reports whether st can carry a message. A nil one cannot.
func (st *stream) alive() bool { return st != nil && st.life.Err() == nil }

// begin receives on a new stream, unless there is another one by now.
func (s *signs) begin(st *stream) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxy = s.proxy || st.once
	if !st.once && s.stream.alive() {
		st.cancel()
		return s.stream, nil
	}
	s.b.Lock() // Close waits for what was begun before
	defer s.b.Unlock()
	if s.b.Closed {
		st.cancel()
		return nil, errClosed
	}
	s.b.Work.Go(st.receive)
	if !st.once {
		s.stream = st
	}
	return st, nil
}

// ask sends one sign of life, and returns its reply. again: the stream was used
// before, and has ended since; on a new one the same may succeed.
func (st *stream) ask(ctx context.Context, id clientv3.LeaseID) (got *etcdserverpb.LeaseKeepAliveResponse,
	again bool, err error) {
	reply := make(chan *etcdserverpb.LeaseKeepAliveResponse, 1)
	st.mu.Lock()
	st.waiting[int64(id)] = reply
	_ = st.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}) // an error ends the stream
	used := st.used
	st.mu.Unlock()
	if st.once {
		defer st.cancel()
	}
	select {
	case got = <-reply:
		return got, false, nil
	case <-st.ended:
		return nil, used && ctx.Err() == nil, st.err
	case <-ctx.Done():
		st.cancel()
		return nil, false, context.Cause(ctx)
	}
}

// receive hands replies to their senders until the stream ends.
func (st *stream) receive() {
	defer close(st.ended)
	defer st.cancel()
	for {
		got, err := st.Recv()
		if err != nil {
			st.err = rpctypes.Error(err)
			return
		}
		st.mu.Lock()
		reply := st.waiting[got.ID]
		delete(st.waiting, got.ID)
		st.used = true
		st.mu.Unlock()
		if reply != nil {
			reply <- got
		}
	}
}
