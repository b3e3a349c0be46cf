package etcd

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock"
)

// watch is one watch for deleted keys. It calls once, at the first deletion or
// when the watch itself ends: etcd compacted the revision, or has no leader.
// The called func looks again.
type watch struct {
	cancel context.CancelFunc

	mu   sync.Mutex
	call func() // nil: called, or disarmed
}

// watchFrom watches a key, or all keys that begin with it, from a revision on.
// It does not wait for etcd.
func (b *Backend) watchFrom(key string, rev int64, call func(), opts ...clientv3.OpOption) *watch {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(b.life))
	w := &watch{cancel: cancel, call: call}
	opts = append(opts, clientv3.WithRev(rev), clientv3.WithFilterPut())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		cancel()
		return w
	}
	b.work.Go(func() {
		defer cancel()
		for got := range b.watcher.Watch(ctx, key, opts...) {
			if len(got.Events) > 0 || got.Err() != nil {
				break
			}
		}
		if ctx.Err() == nil {
			w.fire()
		}
	})
	return w
}

// fire makes the call, unless that was done.
func (w *watch) fire() {
	w.mu.Lock()
	call := w.call
	w.call = nil
	w.mu.Unlock()
	if call != nil {
		call()
	}
}

// disarm ends the watch. A call that is under way may still run.
func (w *watch) disarm() {
	w.mu.Lock()
	w.call = nil
	w.mu.Unlock()
	w.cancel()
}

// Await watches for the deletion of any key under the name. Waiters with a
// place in the queue do not need it.
func (b *Backend) Await(ctx context.Context, name string, wake func()) (func(), bool, error) {
	call, cancel := b.call(ctx)
	defer cancel()
	got, err := b.client.Get(call, name+"/", clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithKeysOnly())
	if err != nil {
		return nil, false, trouble("watch", name, err)
	}
	w := b.watchFrom(name+"/", got.Header.Revision+1, wake, clientv3.WithPrefix())
	return w.disarm, len(got.Kvs) == 0, nil
}

// Watch reports the deletion of held keys, and the end of their session.
func (b *Backend) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	for at := 0; at < len(gs); at += mostReads {
		until := min(at+mostReads, len(gs))
		b.watchSome(ctx, gs[at:until], holders[at:until], errs[at:until])
	}
	return errs
}

func (b *Backend) watchSome(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() },
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
		w := b.watchFrom(g.key, read.Header.Revision+1, holders[i].Touched)
		g.s.mu.Lock()
		over := g.over
		g.watch = w
		g.s.mu.Unlock()
		if over {
			b.Unwatch(g)
			errs[i] = lost(g.name, "its etcd lease is over")
		}
	}
}

// Unwatch ends what Watch armed.
func (b *Backend) Unwatch(one lock.Grant) {
	g := one.(*grant)
	g.s.mu.Lock()
	w := g.watch
	g.watch = nil
	g.s.mu.Unlock()
	if w != nil {
		w.disarm()
	}
}
