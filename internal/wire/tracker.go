package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNoWake: this server, or this user's rights on it, cannot tell when a key changes.
var ErrNoWake = errors.New("the server cannot tell us when a key changes")

// Tracker calls funcs when keys change, whoever changes them, without any configuration of the
// server (Redis 6 and newer, Valkey). A second connection subscribes to what CLIENT TRACKING, on the
// connection of the Mux, redirects there; only commands sent with [Tracker.Do] register the keys
// they read, so commands that do not wait cost nothing.
//
// A message can be missed: by a server that fails over, a proxy between, a table that overflows.
// Whoever waits also looks again from time to time.
type Tracker struct {
	m *Mux

	mu      sync.Mutex
	closed  bool
	watches map[string]*Watch   // by key; of many thousands each mostly has one
	others  map[string][]*Watch // beside those
	on      *link               // on which the server tracks, redirecting to sub
	sub     *listener           // nil unless it is subscribed
	setting *setting            // nil unless somebody sets tracking up
	trouble retry               // with what tracking takes, though the server was reached
	refuser *link               // on which the server refused; nil where the trouble was silence
	failed  error               // how the last attempt failed otherwise; not tried again before failedAt + Timeout
	failAt  time.Time
}

// Watch is somebody who waits for one key. It lies where its owner keeps it, so that a watch of each of
// many keys costs little.
type Watch struct {
	who Toucher // nil when not armed
}

// Toucher is told that a key was touched.
type Toucher interface{ Touched() }

// Touch is a func as a Toucher.
type Touch func()

// Touched calls it.
func (f Touch) Touched() { f() }

// setting is one attempt to turn tracking on, shared by all who wait for it.
type setting struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err is set
	err    error
}

func (t *Tracker) init(m *Mux) {
	t.m, t.watches, t.others = m, make(map[string]*Watch), make(map[string][]*Watch)
}

// Arm makes fn be called once: when key changes next by anybody but this Mux after a [Tracker.Do]
// that reads it, on a flush, or when the watch is lost. It may be called without need, also before
// Arm returned. fn runs on a goroutine of the Tracker and must not block. cancel disarms; after it
// returned fn may still be running.
//
// The order is Arm, then Do: what changes between the two is then seen by Do's reply or by fn.
//
// An error that wraps [ErrNoWake] and is the server's stands for as long as the connection does. Any other
// says that the watch could not be set up now. Where the server was reached and gave no answer, or refused for
// a reason that passes, it is tried again in the background, ever more rarely.
func (t *Tracker) Arm(ctx context.Context, key string, fn func()) (cancel func(), err error) {
	w := &Watch{}
	if err := t.Set(ctx, key, w, Touch(fn)); err != nil {
		return nil, err
	}
	return func() { t.Unset(key, w) }, nil
}

// Set is [Tracker.Arm] for who, with w, which is not armed, as its memory.
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
		t.mu.Unlock() // lost again already
	}
	return &NotSentError{ErrLost}
}

// Do sends cmd so that the keys it reads are registered: those of a read command, or those that
// the read commands of a script touch. Each is reported once.
//
// A write through the same Mux is not reported, but it ends the registration of its key: a script
// that reads, writes, and is to be told of later changes reads once more at its end.
func (t *Tracker) Do(ctx context.Context, cmd Command) (any, error) {
	r := t.m.Batch(ctx, []Command{cmd.Tracked()})[0]
	return r.Value, r.Err
}

// Unset disarms w, if it is armed still for key. It may be called yet, once.
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

// ensure turns tracking on if it is off, and waits for it no longer than ctx lives.
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
		// What the server refuses for good is not asked for again on the same connection.
		if lasts := t.refuser != nil && !IsTransient(err); t.setting == nil && !lasts && !t.trouble.waits() {
			t.begin()
		}
		t.mu.Unlock()
		return err
	case t.failed != nil && time.Since(t.failAt) < t.m.opts.Timeout:
		// Such as a server without room for one more connection: it is not asked at every poll.
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
	t.m.wg.Add(1) // closed is false and close takes mu first, so nobody waits for zero yet
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
	// A link that ends after this look, by Close too, will come by linkLost, which waits for mu.
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
		// A server that stood still for a moment is silent once.
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

// redirect turns tracking on for l. Over one that is on, with a listener that died, it replaces the
// listener.
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
	// Client ids are small numbers: behind a hook that leads to several servers the listener's may
	// be another client's over there.
	if here := runID(c.outcome(1, fate, err)); here != "" && sub.server != "" && here != sub.server {
		if l.retire(errMoved) { // the listener was dialed after it
			return &NotSentError{errMoved}
		}
		return fmt.Errorf("%w: the dial hook leads to different servers", ErrNoWake)
	}
	return nil
}

// linkLost tells that l ended.
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

// listenerLost tells that sub ended.
func (t *Tracker) listenerLost(sub *listener) {
	t.mu.Lock()
	if t.sub != sub {
		t.mu.Unlock()
		return
	}
	t.off()
	t.mu.Unlock()
}

// refused tells that the server was not tracking for l, so what was read there is not registered.
// A newer link than l makes that old news.
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

// off forgets both connections and wakes everybody: what they wait for may have happened. They are
// called on a goroutine of its own, for who noticed the loss may be a caller that holds locks which
// they want. mu is held.
func (t *Tracker) off() {
	t.on, t.sub = nil, nil
	who := t.all()
	if len(who) == 0 {
		return
	}
	t.m.wg.Add(1) // not closed yet, else there were none; so Close is not waiting yet
	go func() {
		defer t.m.wg.Done()
		for _, w := range who {
			w.Touched()
		}
	}()
}

// all takes everybody who waits. mu is held.
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

// disarm disarms w and appends who waited by it. The Tracker's mu is held.
func (w *Watch) disarm(who []Toucher) []Toucher {
	who = append(who, w.who)
	w.who = nil
	return who
}

// changed calls who waits for key, on the listener's goroutine.
func (t *Tracker) changed(sub *listener, key []byte) {
	t.mu.Lock()
	var room [1]Toucher // mostly there is one
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

// flushed calls all who wait, on the listener's goroutine.
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

// close ends the watch for everybody.
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
