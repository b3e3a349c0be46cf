// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// watcher carries all watches of a Backend on one stream of messages. A watch
// of the etcd client costs a goroutine and several KB, and a process may hold
// ten thousand locks.
type watcher struct {
	b *engine

	mu      sync.Mutex
	watches map[int64]*watch // by number
	next    int64            // number of the next watch of this stream
	running bool             // a stream is open, or is being opened
	unsent  []*etcdserverpb.WatchRequest
	more    chan struct{} // capacity 1: unsent has grown
}

// watch is one watch for deleted keys. It calls once, at the first deletion or
// when the watch itself ends: etcd compacted the revision, has no leader, or
// the connection was lost. The called func looks again.
//
// Its number counts the watches of its stream from 0, in the order of the
// requests. etcd uses the number that it is asked for, and etcd's grpc-proxy
// counts by itself, in the same way.
type watch struct {
	watcher *watcher
	number  int64
	call    func()
}

// streamPause is the pause after a stream has ended. The watches are called
// after that, so that a server that refuses every stream is not hammered.
const streamPause = 200 * time.Millisecond

// watchFrom watches the keys from key up to end, or key alone if end is empty,
// from a revision on. It does not wait for etcd.
func (b *engine) watchFrom(key, end string, rev int64, call func()) *watch {
	s := &b.watcher
	w := &watch{watcher: s, call: call}
	b.Lock() // Close waits for what was begun before
	defer b.Unlock()
	if b.Closed {
		return w
	}
	create := &etcdserverpb.WatchCreateRequest{Key: []byte(key), StartRevision: rev,
		Filters: []etcdserverpb.WatchCreateRequest_FilterType{etcdserverpb.WatchCreateRequest_NOPUT}}
	if end != "" {
		create.RangeEnd = []byte(end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.number, create.WatchId = s.next, s.next
	s.next++
	s.watches[w.number] = w
	s.send(&etcdserverpb.WatchRequest{
		RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}})
	if !s.running {
		s.running = true
		b.Work.Go(s.run)
	}
	return w
}

// send leaves a request to the stream. Called with s.mu held.
func (s *watcher) send(request *etcdserverpb.WatchRequest) {
	s.unsent = append(s.unsent, request)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take takes the watch with a number off the list, and ends it at etcd if it
// still is there. nil: it was called or disarmed before. If own is given, it
// takes no other watch, such as one of a later stream.
func (s *watcher) take(number int64, ended bool, own *watch) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[number]
	if w == nil || own != nil && w != own {
		return nil
	}
	delete(s.watches, number)
	if !ended && s.running {
		s.send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{
			CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: number}}})
	}
	return w
}

// run opens a stream and serves it until it ends. Then it calls all watches.
func (s *watcher) run() {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.b.Life))
	stream, err := etcdserverpb.NewWatchClient(s.b.client.ActiveConnection()).Watch(ctx)
	var receiver sync.WaitGroup
	if err == nil {
		receiver.Go(func() {
			defer cancel()
			s.receive(stream)
		})
		s.transmit(ctx, stream)
	}
	cancel()
	receiver.Wait()
	select {
	case <-s.b.cfg.Clock.After(streamPause):
	case <-s.b.Life.Done():
	}
	s.mu.Lock()
	all := s.watches
	s.watches, s.next, s.unsent, s.running = map[int64]*watch{}, 0, nil, false
	s.mu.Unlock()
	for _, w := range all {
		w.call()
	}
}

// transmit sends requests until ctx ends.
func (s *watcher) transmit(ctx context.Context, stream etcdserverpb.Watch_WatchClient) {
	for {
		s.mu.Lock()
		requests := s.unsent
		s.unsent = nil
		s.mu.Unlock()
		for _, request := range requests {
			if stream.Send(request) != nil {
				return
			}
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return
		}
	}
}

// receive calls watches until the stream ends.
func (s *watcher) receive(stream etcdserverpb.Watch_WatchClient) {
	for {
		got, err := stream.Recv()
		if err != nil || got.Canceled && got.WatchId < 0 { // a refusal does not say which watch
			return
		}
		if len(got.Events) == 0 && !got.Canceled {
			continue
		}
		if w := s.take(got.WatchId, got.Canceled, nil); w != nil {
			w.call()
		}
	}
}

// fire makes the call, unless that was done.
func (w *watch) fire() {
	if w.watcher.take(w.number, false, w) != nil {
		w.call()
	}
}

// disarm ends the watch. A call that is under way may still run.
func (w *watch) disarm() { w.watcher.take(w.number, false, w) }

// Await watches for the deletion of any key under the name. Waiters with a
// place in the queue do not need it.
func (b *engine) Await(ctx context.Context, name string, wake func()) (func(), bool, error) {
	call, cancel := b.call(ctx)
	defer cancel()
	got, err := b.client.Get(call, name+"/", clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithKeysOnly())
	if err != nil {
		return nil, false, trouble("watch", name, err)
	}
	w := b.watchFrom(name+"/", clientv3.GetPrefixRangeEnd(name+"/"), got.Header.Revision+1, wake)
	return w.disarm, len(got.Kvs) == 0, nil
}

// Watch reports the deletion of held keys, and the end of their session.
func (b *engine) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	for at := 0; at < len(gs); at += mostReads {
		until := min(at+mostReads, len(gs))
		b.watchSome(ctx, gs[at:until], holders[at:until], errs[at:until])
	}
	return errs
}

func (b *engine) watchSome(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() },
	errs []error) {
	reads := make([]clientv3.Op, len(gs))
	for i, g := range gs {
		reads[i] = clientv3.OpGet(g.(*grant).key, clientv3.WithKeysOnly())
	}
	call, cancel := b.call(ctx)
	defer cancel()
	read, err := b.client.Txn(call).Then(reads...).Commit()
	for i, one := range gs {
		g := one.(*grant)
		if err != nil {
			errs[i] = trouble("watch", g.name, err)
			continue
		}
		kvs := read.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != g.Fence() {
			errs[i] = lost(g.name, "its key is gone")
			continue
		}
		w := b.watchFrom(g.key, "", read.Header.Revision+1, holders[i].Touched)
		g.s.Lock()
		over := g.Gone()
		g.watch = w
		g.s.Unlock()
		if over {
			b.Unwatch(g)
			errs[i] = lost(g.name, "its etcd lease is over")
		}
	}
}

// Unwatch ends what Watch armed.
func (b *engine) Unwatch(one backend.Grant) {
	g := one.(*grant)
	g.s.Lock()
	w := g.watch
	g.watch = nil
	g.s.Unlock()
	if w != nil {
		w.disarm()
	}
}
