package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNoWake: this server, or this user's rights on it, cannot report that a key
// changes.
var ErrNoWake = errors.New("the server cannot report when a key changes")

// Tracker calls funcs when another client changes keys, without any
// configuration of the server (Redis 6 and newer, Valkey). CLIENT TRACKING on
// the Mux's connection redirects its messages to a second connection that
// subscribes to them. Only commands sent by [Tracker.Do] register the keys that
// they read, so other commands pay nothing.
//
// A message can be missed: in a fail-over, by a proxy in between, or when the
// server's table overflows. So waiters must also look again from time to time.
type Tracker struct {
	m *Mux

	mu      sync.Mutex
	closed  bool
	watches map[string]*Watch   // by key; mostly each key has one
	others  map[string][]*Watch // further watches of a key
	on      *link               // connection on which the server tracks, redirecting to sub
	sub     *listener           // nil unless it is subscribed
	setting *setting            // nil unless tracking is being set up
	trouble retry               // trouble with the commands of tracking, though the server was reached
	refuser *link               // connection on which the server refused; nil if the trouble was silence
	failed  error               // other error of the last attempt; no new one before failAt + Timeout
	failAt  time.Time
}

// Watch is one waiter for one key. It is part of its owner's memory, so that
// watches of many keys cost little.
type Watch struct {
	who Toucher // nil when not armed
}

// Toucher is called when a key was touched.
type Toucher interface{ Touched() }

// Touch is a func as a Toucher.
type Touch func()

// Touched calls it.
func (f Touch) Touched() { f() }

// setting is one attempt to turn tracking on, shared by all goroutines that
// wait for it.
type setting struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err is set
	err    error
}

func (t *Tracker) init(m *Mux) {
	t.m, t.watches, t.others = m, make(map[string]*Watch), make(map[string][]*Watch)
}

// Arm makes fn be called once. That is when another client changes key next
// after a [Tracker.Do] that reads it, on a flush, or when the watch is lost. fn
// may be called without need, also before Arm returned. It runs on a goroutine
// of the Tracker and must not block. cancel disarms; after it returned, a call
// already under way may still run.
//
// The order is Arm, then Do: a change between the two is then seen by Do's
// reply or by fn.
//
// If an error wraps [ErrNoWake] and the server's answer, it holds for as long
// as the connection. Any other error says that the watch could not be set up
// now. If the server was reached and did not answer, or refused for a reason
// that passes, it is tried again in the background, with growing pauses.
func (t *Tracker) Arm(ctx context.Context, key string, fn func()) (cancel func(), err error) {
	w := &Watch{}
	if err := t.Set(ctx, key, w, Touch(fn)); err != nil {
		return nil, err
	}
	return func() { t.Unset(key, w) }, nil
}

// Set is [Tracker.Arm] for who. It keeps its state in w, which must not be
// armed.
func (t *Tracker) Set(ctx context.Context, key string, w *Watch, who Toucher) error {
	for range 3 {
		if err := t.ensure(ctx); err != nil {
			return err
		}
		t.mu.Lock()
		if t.on != nil {
			w.who = who
			if t.watches[key] == nil {
				t.watches[key] = w
			} else {
				t.others[key] = append(t.others[key], w)
			}
			t.sub.listen()
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock() // the connection was lost again
	}
	return &NotSentError{ErrLost}
}

// Do sends cmd so that the keys it reads are registered: those of a read
// command, or those that the read commands of a script touch. Each is reported
// once.
//
// A write through the same Mux is not reported, but it ends the registration of
// its key. So a script that reads and writes, and whose caller needs later
// changes, reads once more at its end.
func (t *Tracker) Do(ctx context.Context, cmd Command) (any, error) {
	r := t.m.Batch(ctx, []Command{cmd.Tracked()})[0]
	return r.Value, r.Err
}

// Unset disarms w if it is still armed for key. A call already under way may
// still reach it, once.
func (t *Tracker) Unset(key string, w *Watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.who == nil {
		return
	}
	w.who = nil
	if t.watches[key] == w {
		delete(t.watches, key)
		return
	}
	rest := slices.DeleteFunc(t.others[key], func(o *Watch) bool { return o == w })
	if t.others[key] = rest; len(rest) == 0 {
		delete(t.others, key)
	}
}

// ensure turns tracking on if it is off, and waits at most until ctx ends.
func (t *Tracker) ensure(ctx context.Context) error {
	t.mu.Lock()
	switch {
	case t.closed:
		t.mu.Unlock()
		return &NotSentError{ErrClosed}
	case t.on != nil:
		t.mu.Unlock()
		return nil
	case t.trouble.err != nil && (t.refuser == nil || t.refuser == t.m.link.Load()):
		err := t.trouble.err
		// A lasting refusal is not repeated on the same connection.
		if lasts := t.refuser != nil && !IsTransient(err); t.setting == nil && !lasts && !t.trouble.waits() {
			t.begin()
		}
		t.mu.Unlock()
		return err
	case t.failed != nil && time.Since(t.failAt) < t.m.opts.Timeout:
		// For example the server takes no more connections: it is not asked at
		// every poll.
		err := t.failed
		t.mu.Unlock()
		return err
	}
	if t.setting == nil {
		t.begin()
	}
	s := t.setting
	t.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return &NotSentError{context.Cause(ctx)}
	}
}

// begin starts to turn tracking on. mu is held.
func (t *Tracker) begin() {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.setting = &setting{cancel: cancel, done: make(chan struct{})}
	t.m.wg.Add(1) // closed is false, and close takes mu before it waits for wg
	go t.set(ctx, t.setting)
}

// set is the goroutine of one setting.
func (t *Tracker) set(ctx context.Context, s *setting) {
	defer t.m.wg.Done()
	defer s.cancel(nil)
	l, err := t.m.connect(ctx)
	if err != nil {
		err = &NotSentError{err}
	}
	var sub *listener
	if err == nil {
		sub, err = t.subscribe(ctx)
	}
	if err == nil {
		err = t.redirect(ctx, l, sub)
	}
	t.mu.Lock()
	// If the link ends after this check, also by Close, linkLost is called,
	// which waits for mu.
	if err == nil && l.gone() {
		err = &NotSentError{ErrLost}
	}
	t.failed = nil
	var silent *unheard
	switch {
	case err == nil:
		t.trouble.worked()
		t.on, t.sub = l, sub
		sub.start()
	case answered(err) || errors.Is(err, ErrNoWake):
		t.trouble.failed(err)
		t.refuser = l
	case errors.As(err, &silent) && !t.closed:
		// A server that stopped for a moment is silent once.
		if again := t.trouble.err != nil && t.refuser == nil; again {
			err = fmt.Errorf("%w: %w", ErrNoWake, err)
		}
		t.trouble.failed(err)
		t.refuser = nil
	default:
		t.failed, t.failAt = err, time.Now()
	}
	s.err = err
	t.setting = nil
	t.mu.Unlock()
	close(s.done)
	if err != nil && sub != nil {
		_ = sub.conn.Close()
	}
}

// redirect turns tracking on for l. If tracking is on with a listener that
// died, it replaces the listener.
func (t *Tracker) redirect(ctx context.Context, l *link, sub *listener) error {
	c := newCall()
	c.cmds = []Command{
		Cmd("CLIENT", "TRACKING", "ON", "REDIRECT", sub.id, "OPTIN", "NOLOOP"),
		Cmd("INFO", "server"),
	}
	c.replies = make([]Reply, 0, 2)
	if !l.submit(c) {
		return &NotSentError{ErrLost}
	}
	fate, err := l.await(ctx, c)
	if r := c.outcome(0, fate, err); r.Err != nil {
		return refusedBy(r.Err)
	}
	// Client ids are small numbers. If the hook leads to several servers, the
	// listener's id may belong to another client on the other server.
	if here := runID(c.outcome(1, fate, err)); here != "" && sub.server != "" && here != sub.server {
		if l.retire(errMoved) { // the listener was dialed after l
			return &NotSentError{errMoved}
		}
		return fmt.Errorf("%w: the dial hook leads to different servers", ErrNoWake)
	}
	return nil
}

// linkLost turns tracking off if l, which has ended, was its connection.
func (t *Tracker) linkLost(l *link) {
	t.mu.Lock()
	if t.on != l {
		t.mu.Unlock()
		return
	}
	sub := t.sub
	t.off()
	t.mu.Unlock()
	_ = sub.conn.Close()
}

// listenerLost turns tracking off if sub, which has ended, was its listener.
func (t *Tracker) listenerLost(sub *listener) {
	t.mu.Lock()
	if t.sub != sub {
		t.mu.Unlock()
		return
	}
	t.off()
	t.mu.Unlock()
}

// refused records that the server was not tracking for l, so that keys read
// there are not registered. It does nothing if a newer link tracks.
func (t *Tracker) refused(l *link) {
	t.mu.Lock()
	if t.on != l && t.on != nil {
		t.mu.Unlock()
		return
	}
	sub := t.sub
	t.off()
	t.mu.Unlock()
	if sub != nil {
		_ = sub.conn.Close()
	}
}

// off forgets both connections and calls every waiter: the awaited change may
// have happened. The calls run on a goroutine of their own. The goroutine that
// noticed the loss may hold locks that they need. mu is held.
func (t *Tracker) off() {
	t.on, t.sub = nil, nil
	who := t.all()
	if len(who) == 0 {
		return
	}
	t.m.wg.Add(1) // with waiters the Tracker is not closed yet, so Close is not waiting yet
	go func() {
		defer t.m.wg.Done()
		for _, w := range who {
			w.Touched()
		}
	}()
}

// all disarms and returns all waiters. mu is held.
func (t *Tracker) all() []Toucher {
	var who []Toucher
	for _, w := range t.watches {
		who = w.disarm(who)
	}
	for _, of := range t.others {
		for _, w := range of {
			who = w.disarm(who)
		}
	}
	clear(t.watches)
	clear(t.others)
	return who
}

// disarm disarms w and appends its waiter to who. The Tracker's mu is held.
func (w *Watch) disarm(who []Toucher) []Toucher {
	who = append(who, w.who)
	w.who = nil
	return who
}

// changed calls the waiters for key, on the listener's goroutine.
func (t *Tracker) changed(sub *listener, key []byte) {
	t.mu.Lock()
	var room [1]Toucher // mostly there is one waiter
	who := room[:0]
	if t.sub == sub {
		if w := t.watches[string(key)]; w != nil {
			who = w.disarm(who)
			delete(t.watches, string(key))
		}
		for _, w := range t.others[string(key)] {
			who = w.disarm(who)
		}
		delete(t.others, string(key))
	}
	t.mu.Unlock()
	for _, w := range who {
		w.Touched()
	}
}

// flushed calls all waiters, on the listener's goroutine.
func (t *Tracker) flushed(sub *listener) {
	t.mu.Lock()
	var who []Toucher
	if t.sub == sub {
		who = t.all()
	}
	t.mu.Unlock()
	for _, w := range who {
		w.Touched()
	}
}

// close ends all watches.
func (t *Tracker) close() {
	t.mu.Lock()
	t.closed = true
	if t.setting != nil {
		t.setting.cancel(ErrClosed)
	}
	sub := t.sub
	t.off()
	t.mu.Unlock()
	if sub != nil {
		_ = sub.conn.Close()
	}
}
