// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
)

const (
	// pause is the shortest time between the beginnings of two refreshes,
	// however many callers ask for one.
	pause = 100 * time.Millisecond

	// patience is how long a refresh waits for an answer.
	patience = 2 * time.Second

	// askTogether is how many nodes a refresh asks at the same time. The first
	// answer counts, so that a dead node delays no refresh.
	askTogether = 3

	// attendEvery is the pause between two refreshes of Attend.
	attendEvery = time.Second
)

// Table is the primary of each slot, as far as this process knows. It learns
// that from redirections, and from refreshes, which all callers share.
type Table struct {
	seeds []string
	ask   func(ctx context.Context, addr string) (slots any, err error)
	moved func(from string, in func(key string) bool)

	mu      sync.Mutex
	addrs   []string            // primaries; owners has indexes plus one
	owners  [names.Slots]uint16 // 0: none
	running bool                // a goroutine refreshes
	attends bool                // a goroutine attends
	next    *refresh            // the refresh that has not begun; nil unless asked for
	began   time.Time           // when the last one began; its goroutine's alone

	life context.Context // ended with mu held, so that no goroutine begins after that
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// refresh is one question for all slots, shared by all who asked for it before
// it began.
type refresh struct {
	done chan struct{} // closed when err is set
	err  error
}

// New returns a Table that knows nothing yet. ask sends CLUSTER SLOTS to the
// node at an address. moved is called when slots moved: those of the keys that
// in accepts, which may be none, left the primary from. Neither is called with
// a mutex held.
func New(seeds []string, ask func(ctx context.Context, addr string) (any, error),
	moved func(from string, in func(key string) bool)) *Table {
	t := &Table{seeds: seeds, ask: ask, moved: moved}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// Looking returns a Table that asks over connections of its own.
func Looking(seeds []string, pool func(addr string) *redis.Pool) *Table {
	return New(seeds, func(ctx context.Context, addr string) (any, error) {
		c, err := pool(addr).DialContext(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return redis.DoContext(c, ctx, "CLUSTER", "SLOTS")
	}, func(string, func(string) bool) {})
}

// Close ends the refreshes and joins their goroutines.
func (t *Table) Close() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.wg.Wait()
}

// NoOwnerError says that no node is known to serve a slot.
type NoOwnerError struct {
	Slot uint16
	Err  error // why the nodes could not be asked, or nil: they know none either
}

func (e *NoOwnerError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the nodes of the cluster could not be asked for its slots: %v", e.Err)
	}
	return fmt.Sprintf("no node of the cluster serves slot %d", e.Slot)
}

func (e *NoOwnerError) Unwrap() error { return e.Err }

// Passing is true where the nodes answered: the slot is about to be assigned.
func (e *NoOwnerError) Passing() bool {
	var judged interface{ Passing() bool }
	return !errors.As(e.Err, &judged) || judged.Passing()
}

// Owner returns the primary of a slot. If none is known, it waits for one
// refresh.
func (t *Table) Owner(ctx context.Context, slot uint16) (addr string, err error) {
	if addr, ok := t.owner(slot); ok {
		return addr, nil
	}
	if err := t.Refresh(ctx); err != nil {
		return "", &NoOwnerError{slot, err}
	}
	if addr, ok := t.owner(slot); ok {
		return addr, nil
	}
	return "", &NoOwnerError{Slot: slot}
}

func (t *Table) owner(slot uint16) (addr string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.owners[slot]; n > 0 {
		return t.addrs[n-1], true
	}
	return "", false
}

// Primaries returns the primaries that serve slots, after a refresh.
func (t *Table) Primaries(ctx context.Context) ([]string, error) {
	if err := t.Refresh(ctx); err != nil {
		return nil, &NoOwnerError{Err: err}
	}
	return t.known(), nil
}

func (t *Table) known() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.addrs)
}

// Redirected records what the node at by answered, and begins a refresh: the
// other slots may have moved too. It returns the address to ask.
func (t *Table) Redirected(by string, r wire.Redirect) string {
	to := Join(by, r.Addr)
	if r.Ask {
		return to // the slot is still by's
	}
	t.mu.Lock()
	from := ""
	if n := t.owners[r.Slot%names.Slots]; n > 0 {
		from = t.addrs[n-1]
	}
	t.owners[r.Slot%names.Slots] = t.index(to)
	t.mu.Unlock()
	if from != "" && from != to {
		t.moved(from, func(key string) bool { return names.Slot(key) == r.Slot })
	}
	t.Suspect()
	return to
}

// index returns what owners has for addr. mu is held.
func (t *Table) index(addr string) uint16 {
	n := slices.Index(t.addrs, addr)
	if n < 0 {
		n = len(t.addrs)
		t.addrs = append(t.addrs, addr)
	}
	return uint16(n) + 1
}

// Suspect begins a refresh: a node did not answer, or sent a command elsewhere.
func (t *Table) Suspect() { t.begin() }

// Attend refreshes each second while wanted returns true. A waiter that is not
// the first in its queue watches no key and sends nothing for many seconds, so
// that no redirection tells it of a move.
func (t *Table) Attend(wanted func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() != nil || t.attends {
		return
	}
	t.attends = true
	t.wg.Go(func() {
		ticker := time.NewTicker(attendEvery)
		defer ticker.Stop()
		for t.attending(wanted) {
			select {
			case <-ticker.C:
				_ = t.Refresh(t.life)
			case <-t.life.Done():
				return
			}
		}
	})
}

// attending reports whether to go on, and records the end. A waiter that comes
// after that begins anew.
func (t *Table) attending(wanted func() bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attends = wanted()
	return t.attends
}

// Refresh waits for a refresh that begins now or later.
func (t *Table) Refresh(ctx context.Context) error {
	r := t.begin()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return &wire.NotSentError{Err: context.Cause(ctx)}
	}
}

func (t *Table) begin() *refresh {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = &refresh{done: make(chan struct{})}
	}
	r := t.next
	switch {
	case t.life.Err() != nil && !t.running:
		r.err, t.next = &wire.NotSentError{Err: wire.ErrClosed}, nil
		close(r.done)
	case !t.running:
		t.running = true
		t.wg.Go(t.run)
	}
	return r
}

// run refreshes until nobody asks for it. It is a goroutine.
func (t *Table) run() {
	for {
		timer := time.NewTimer(time.Until(t.began.Add(pause)))
		select {
		case <-timer.C:
		case <-t.life.Done():
			timer.Stop()
		}
		t.mu.Lock()
		r := t.next
		t.next, t.began = nil, time.Now()
		t.running = r != nil
		t.mu.Unlock()
		if r == nil {
			return
		}
		r.err = t.refresh()
		close(r.done)
	}
}

// refresh asks a few nodes, mixed, for the slots. If all fail, it asks the next
// ones.
func (t *Table) refresh() error {
	nodes := t.known()
	for _, seed := range t.seeds {
		if !slices.Contains(nodes, seed) {
			nodes = append(nodes, seed)
		}
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var last error
	for some := range slices.Chunk(nodes, askTogether) {
		if t.life.Err() != nil {
			return &wire.NotSentError{Err: wire.ErrClosed}
		}
		all, err := t.first(some)
		if err == nil {
			t.apply(all)
			return nil
		}
		last = err
	}
	return last
}

// first returns the first answer of some nodes.
func (t *Table) first(nodes []string) ([]span, error) {
	ctx, cancel := context.WithTimeout(t.life, patience)
	defer cancel()
	type answer struct {
		slots []span
		err   error
	}
	answers := make(chan answer, len(nodes))
	for _, addr := range nodes {
		t.wg.Go(func() {
			reply, err := t.ask(ctx, addr)
			all, err := spans(addr, reply, err)
			if err == nil && len(all) == 0 {
				err = &NoOwnerError{} // a node that has just been added, or left its cluster
			}
			answers <- answer{all, err}
		})
	}
	var last error
	for range nodes {
		a := <-answers
		if a.err == nil {
			return a.slots, nil
		}
		last = a.err
	}
	return nil, last
}

// apply records the primaries, and reports the slots that left their old one.
func (t *Table) apply(all []span) {
	t.mu.Lock()
	before, had := t.owners, t.addrs
	t.addrs, t.owners = nil, [names.Slots]uint16{}
	for _, s := range all {
		n := t.index(s.addr)
		for slot := s.first; slot <= s.last; slot++ {
			t.owners[slot] = n
		}
	}
	now, has := t.owners, t.addrs
	t.mu.Unlock()
	if now == before && slices.Equal(has, had) {
		return
	}
	for n, from := range had {
		t.moved(from, func(key string) bool {
			slot := names.Slot(key)
			return before[slot] == uint16(n)+1 && (now[slot] == 0 || has[now[slot]-1] != from)
		})
	}
}
