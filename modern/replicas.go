// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"fmt"
	"sync"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// replicated waits until enough replicas have acknowledged what was written so
// far.
func (b *engine) replicated(ctx context.Context, g *grant) error {
	n, err := b.rounds.join(backend.IgnoreWait(ctx), g.key, b.replicas)
	switch {
	case err != nil:
		return trouble("wait for the replicas of", g.key, err)
	case n < int64(b.cfg.Replicas):
		b.stats.replicasMissing.Add(1)
		return fmt.Errorf(
			"modern: key %q: %d of %d replicas acknowledged the key within %v; see Config.Replicas", g.key, n,
			b.cfg.Replicas, b.cfg.ReplicaWait)
	}
	return nil
}

// replicas returns how many replicas have all that the server has executed.
// WAIT only covers writes of its own connection, so a write without meaning is
// sent right before it. A connection that had written nothing, or was dialed in
// between, would get the answer that every replica has it. The write goes to
// the server that has key.
func (b *engine) replicas(key string) (int64, error) {
	rs := b.patient.Batch(context.Background(), []wire.Command{
		wire.Cmd("SET", names.OfSlot("gsl:wait:"+scope.InName(b.cfg.Namespace)+":", key), "", "PX", 1000),
		wire.Cmd("WAIT", b.cfg.Replicas, millis(b.cfg.ReplicaWait)),
	})
	if rs[0].Err != nil {
		return 0, rs[0].Err
	}
	n, _ := rs[1].Value.(int64)
	return n, rs[1].Err
}

// rounds shares the answers of WAIT between callers. A round answers every
// caller that came before it began. So no caller waits longer than two rounds,
// however few replicas there are.
type rounds struct {
	mu      sync.Mutex
	next    *round // the round that has not begun; nil unless a caller waits for it
	running bool
	closed  bool
	wg      sync.WaitGroup
}

type round struct {
	key  string        // of the first caller
	done chan struct{} // closed when n and err are set
	n    int64
	err  error
}

// join waits for a round that has not begun yet.
func (r *rounds) join(ctx context.Context, key string, ask func(key string) (int64, error)) (int64, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return 0, wire.ErrClosed
	}
	if r.next == nil {
		r.next = &round{key: key, done: make(chan struct{})}
	}
	mine := r.next
	if !r.running {
		r.running = true
		r.wg.Go(func() { r.run(ask) })
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.n, mine.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// close prevents new rounds and waits for the last one.
func (r *rounds) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}

// run runs one round after the other until no caller waits. It is a goroutine.
func (r *rounds) run(ask func(key string) (int64, error)) {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		r.running = now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.n, now.err = ask(now.key)
		close(now.done)
	}
}
