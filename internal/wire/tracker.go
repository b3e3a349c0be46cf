// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"time"
)

// invalidate is the channel on which a server that speaks RESP2 reports changed
// keys.
const invalidate = "__redis__:invalidate"

// ErrNoWake: this server, or this user's rights on it, cannot report that a key
// changes.
var ErrNoWake = errors.New("the server cannot report when a key changes")

// Tracker calls funcs when another client changes keys, without any
// configuration of the server (Redis 6 and newer, Valkey). CLIENT TRACKING on
// the Mux's connection redirects its messages to the [subscriber]. Only
// commands sent by [Tracker.Do] register the keys that they read, so other
// commands pay nothing.
//
// A message can be missed: in a fail-over, by a proxy in between, or when the
// server's table overflows. So waiters must also look again from time to time.
type Tracker struct {
	s *subscriber // its mutex guards what follows

	watches map[string]*Watch   // by key; mostly each key has one
	others  map[string][]*Watch // further watches of a key
	on      *link               // connection on which the server tracks; nil: tracking is off
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
	s := t.s
	for range 4 { // three lost connections, and an attempt of the notices
		s.mu.Lock()
		if t.on != nil {
			w.who = who
			if t.watches[key] == nil {
				t.watches[key] = w
			} else {
				t.others[key] = append(t.others[key], w)
			}
			s.conn.listen()
			s.mu.Unlock()
			return nil
		}
		a, err := t.begin()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if err := a.wait(ctx, true); err != nil {
			return err
		}
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
	r := t.s.m.Batch(ctx, []Command{cmd.Tracked()})[0]
	return r.Value, r.Err
}

// Unset disarms w if it is still armed for key. A call already under way may
// still reach it, once.
func (t *Tracker) Unset(key string, w *Watch) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
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

// begin returns the attempt to wait for, or the reason why none is awaited. mu
// is held, and tracking is off.
func (t *Tracker) begin() (*attempt, error) {
	s := t.s
	switch {
	case s.closed:
		return nil, &NotSentError{ErrClosed}
	case t.trouble.err != nil && (t.refuser == nil || t.refuser == s.m.link.Load()):
		// A lasting refusal is not repeated on the same connection.
		lasts := t.refuser != nil && !IsTransient(t.trouble.err)
		if s.attempt == nil && !lasts && !t.trouble.waits() {
			s.begin(true)
		}
		return nil, t.trouble.err
	case t.failed != nil && time.Since(t.failAt) < s.m.opts.Timeout:
		// For example the server takes no more connections: it is not asked at
		// every poll.
		return nil, t.failed
	case s.attempt == nil:
		s.begin(true)
	}
	return s.attempt, nil
}

// turnOn opens c and makes the server track on the Mux's connection.
func (t *Tracker) turnOn(ctx context.Context, c *subscription, hear bool) (*link, error) {
	l, err := t.s.m.connect(ctx)
	if err != nil {
		return nil, &NotSentError{err}
	}
	err = c.open(ctx, true, hear)
	var refused *refusal
	if errors.As(err, &refused) {
		return l, refusedBy(refused.err)
	}
	if err == nil {
		err = t.redirect(ctx, l, c)
	}
	return l, err
}

// tried records the result of an attempt. mu is held.
func (t *Tracker) tried(l *link, err error) error {
	// If l ends after this check, untrack is called, which waits for mu.
	if err == nil && l.gone() {
		err = &NotSentError{ErrLost}
	}
	t.failed = nil
	var silent *unheard
	switch {
	case err == nil:
		t.trouble.worked()
	case answered(err) || errors.Is(err, ErrNoWake):
		t.trouble.failed(err)
		t.refuser = l
	case errors.As(err, &silent):
		// A server that stopped for a moment is silent once.
		if again := t.trouble.err != nil && t.refuser == nil; again {
			err = fmt.Errorf("%w: %w", ErrNoWake, err)
		}
		t.trouble.failed(err)
		t.refuser = nil
	default:
		t.failed, t.failAt = err, time.Now()
	}
	return err
}

// refusedBy marks a lasting refusal of the server with ErrNoWake. Trouble that
// will pass is not marked.
func refusedBy(err error) error {
	if !answered(err) || IsTransient(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoWake, err)
}

var errMoved = errors.New("another connection leads to another server: there was a fail-over")

// redirect turns tracking on for l. If it is on with a connection that died,
// the server uses the new one from then on.
func (t *Tracker) redirect(ctx context.Context, l *link, to *subscription) error {
	c := newCall()
	c.cmds = []Command{
		Cmd("CLIENT", "TRACKING", "ON", "REDIRECT", to.id, "OPTIN", "NOLOOP"),
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
	// client id may belong to another client on the other server.
	if here := runID(c.outcome(1, fate, err)); here != "" && to.server != "" && here != to.server {
		if l.retire(errMoved) { // to was dialed after l
			return &NotSentError{errMoved}
		}
		return fmt.Errorf("%w: the dial hook leads to different servers", ErrNoWake)
	}
	return nil
}

var runIDLine = regexp.MustCompile(`(?m)^run_id:(\w+)`)

// runID finds the server's run id in a reply to INFO, for which a user may lack
// the right.
func runID(r Reply) string {
	b, _ := r.Value.([]byte)
	if found := runIDLine.FindSubmatch(b); found != nil {
		return string(found[1])
	}
	return ""
}

// off turns tracking off and calls every waiter: the awaited change may have
// happened. The calls run on a goroutine of their own. The goroutine that
// noticed the loss may hold locks that they need. mu is held.
func (t *Tracker) off() {
	t.on = nil
	who := t.all()
	if len(who) == 0 {
		return
	}
	m := t.s.m
	m.wg.Add(1) // with waiters the Tracker is not closed yet, so Close is not waiting yet
	go func() {
		defer m.wg.Done()
		touch(who)
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

// disarm disarms w and appends its waiter to who. mu is held.
func (w *Watch) disarm(who []Toucher) []Toucher {
	who = append(who, w.who)
	w.who = nil
	return who
}

// changed calls the waiters for keys, or all waiters, on the subscriber's
// goroutine.
func (t *Tracker) changed(keys []any, all bool) {
	var room [1]Toucher // mostly there is one waiter
	who := room[:0]
	t.s.mu.Lock()
	if all {
		who = t.all()
	}
	for _, k := range keys {
		key, _ := k.([]byte)
		if w := t.watches[string(key)]; w != nil {
			who = w.disarm(who)
			delete(t.watches, string(key))
		}
		for _, w := range t.others[string(key)] {
			who = w.disarm(who)
		}
		delete(t.others, string(key))
	}
	t.s.mu.Unlock()
	touch(who)
}

// Touch calls the waiters for the keys that which accepts, as if these had
// changed.
func (t *Tracker) Touch(which func(key string) bool) {
	var keys []any
	t.s.mu.Lock()
	for _, all := range []iter.Seq[string]{maps.Keys(t.watches), maps.Keys(t.others)} {
		for key := range all {
			if which(key) {
				keys = append(keys, []byte(key))
			}
		}
	}
	t.s.mu.Unlock()
	t.changed(keys, false)
}

func touch(who []Toucher) {
	for _, w := range who {
		w.Touched()
	}
}
