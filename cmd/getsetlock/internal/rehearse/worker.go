// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	// errLost ends a job before it wrote, because the lease was lost.
	errLost = errors.New("the lease was lost in the middle of the job")

	// errRetired ends an order whose program was asked to end before it began
	// the job.
	errRetired = errors.New("the program is ending")

	// errAside ends an order whose key did not come free while the program
	// waited.
	errAside = errors.New("the key did not come free")
)

// worker is one program of the fleet, from its start to its end or death.
type worker struct {
	fleet *fleet
	team  *team
	identity
	link *link
	data redis.Conn // the job's own connection
	host *machine
	locking

	retired atomic.Bool
	closed  chan struct{} // closed after the lock's client, and after retired was set
}

// start starts a program.
func (f *fleet) start(ctx context.Context, t *team, slot, life int) (*worker, error) {
	who := identity{slot, life}
	w := &worker{fleet: f, team: t, identity: who, host: f.hosts[slot], closed: make(chan struct{})}
	w.link = &link{commands: &t.commands, sending: f.sends, host: w.host, ended: f.ended,
		wrote: w.wrote, dial: func(ctx context.Context, n int) (redis.Conn, error) {
			return f.dial(ctx, who, n)
		}}
	var err error
	if w.data, err = w.link.Dial(ctx); err != nil {
		return nil, err
	}
	if err = t.equip(w); err != nil {
		w.link.cut()
		return nil, err
	}
	return w, nil
}

// apart is a pause of a length that no other slot has. It keeps two programs
// from being acted on at one instant.
func (w *worker) apart() time.Duration { return time.Duration(w.slot) * startsApart }

// jitter returns the random source of a program's clients: one seed gives one
// course of events.
func (w *worker) jitter() func(time.Duration) time.Duration {
	var mu sync.Mutex
	r := w.fleet.plan.rand(streamJitter, w.slot<<32|w.life)
	return func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(most) + 1))
	}
}

// serve works through orders until none is left or the program is to end. died
// reports whether it died over one.
func (w *worker) serve(ctx context.Context) (died bool) {
	f := w.fleet
	for !w.retired.Load() {
		t := f.tasks.take(ctx, w.slot, &w.retired)
		if t == nil {
			return false
		}
		err := w.sellOnce(ctx, t)
		shut := errors.Is(err, errAside) && w.isShutOut()
		if errors.Is(err, errAside) {
			f.book.count(&w.team.GaveUp)
		}
		f.tasks.finish(t, shut || errors.Is(err, errDead) || errors.Is(err, errRetired))
		switch {
		case shut:
			f.moves.gaveUp(w.slot)
			w.retire()
		case err == nil || errors.Is(err, errRetired):
		case errors.Is(err, errDead):
			return true
		case errors.Is(err, errAside):
			f.book.putAside(t.Order)
		default:
			f.stop(fmt.Errorf("%s program %d: %w", w.team.Name, w.slot, err))
			return false
		}
	}
	return false
}

// sellOnce serves one order. It starts a job again whenever its lease was lost
// before the job wrote. The error is errDead, errAside, errRetired, the cause
// of ctx, or trouble.
func (w *worker) sellOnce(ctx context.Context, t *task) error {
	sell := w.sellLocked
	if w.client == nil {
		sell = w.sellUnlocked
	}
	for {
		err := sell(ctx, t)
		if !errors.Is(err, errLost) {
			return err
		}
		w.fleet.book.count(&w.team.Retries)
	}
}

// retire asks the program to end, and returns when its job under way is done. A
// second caller waits on a channel, since a mutex would stop virtual time.
func (w *worker) retire() {
	if w.retired.CompareAndSwap(false, true) {
		w.fleet.tasks.let(0)
		w.close()
		close(w.closed)
	}
	<-w.closed
}

// think is the time between reading and writing back. A program that dies does
// so half-way.
func (w *worker) think(ctx context.Context, t *task, end fate) error {
	switch end {
	case dies, takesAllDown:
		if err := pause(ctx, t.think/2); err != nil {
			return err
		}
		return errDead
	case overruns:
		// Long enough for other clients to have taken over and to be in the
		// middle of their jobs.
		lease := w.fleet.terms.Lease
		return w.works(ctx, max(t.think, lease+lease/4))
	}
	return w.works(ctx, t.think)
}

// works takes longer if the machine is paused meanwhile.
func (w *worker) works(ctx context.Context, d time.Duration) error {
	now := w.fleet.now()
	return pause(ctx, w.host.worked(now, d)-now)
}

// wrote records each write of an attempt, and the age of its clock reading when
// it was sent. The longest latency is added, since the message may take that
// long.
func (w *worker) wrote(key string, age time.Duration) {
	if p := w.fleet.locks[key]; p != nil && w.team.kind == oldClient {
		if w.fleet.moves != nil {
			w.fleet.moves.saw(key)
		}
		w.fleet.book.wrote(p, age+w.fleet.plan.Latency.Most())
	}
}

// deduct is the job itself, as people write it: read the stock, decide, write
// it back. alive ends when the program may no longer work. h gets the record of
// what was read and written. If the server refuses the write of a transaction,
// done is false.
func (w *worker) deduct(alive context.Context, t *task, end fate, h *hold) (sold, done bool, err error) {
	key := w.fleet.book.products[t.SKU].shelf
	if w.transaction {
		if _, err := w.data.Do("WATCH", key); err != nil {
			return false, false, fmt.Errorf("watching the stock of %q: %w", t.SKU, err)
		}
	}
	n, err := redis.Int(w.data.Do("GET", key))
	if err != nil {
		return false, false, fmt.Errorf("reading the stock of %q: %w", t.SKU, err)
	}
	h.job = job{who: w.name(), readAt: w.fleet.now(), read: n}
	if err := w.think(alive, t, end); err != nil {
		h.job.died = errors.Is(err, errDead)
		return false, false, err
	}
	if n < t.Quantity {
		if w.transaction {
			_, err = w.data.Do("UNWATCH")
		}
		return false, true, err
	}
	h.job.sent = w.fleet.now()
	if w.transaction {
		w.data.Send("MULTI")
		w.data.Send("SET", key, n-t.Quantity)
		var reply any
		reply, err = w.data.Do("EXEC")
		done = reply != nil
	} else {
		_, err = w.data.Do("SET", key, n-t.Quantity)
		done = true
	}
	if err != nil {
		return false, false, fmt.Errorf("writing the stock of %q: %w", t.SKU, err)
	}
	if done {
		h.job.wroteAt, h.job.wrote = w.fleet.now(), n-t.Quantity
	}
	return true, done, nil
}

// name is the program's name for people: its group and a number.
func (w *worker) name() string {
	if w.team.Name == w.fleet.plan.Protocol { // the only group
		return fmt.Sprintf("program %d", w.slot+1)
	}
	return fmt.Sprintf("%s %d", w.team.Name, w.slot+1)
}
