package wire

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A link's reader costs a lone caller two switches between goroutines a command, a tenth of what the
// command costs on the same machine. So a caller that has the link to itself for a while, and gets
// its replies fast, is given a second connection on which it receives its own replies.
//
// Such a caller cannot be woken out of its Receive but by closing the connection. On the link that
// would leave everybody's commands unknown; here it is one command. The link stays what it was: its
// reader notices the death of a server, and the second connection ends with it.
const (
	// A caller is lone when it made so many calls within a window, over a quarter of it at least, and
	// met nobody. Over a slow network replies are too far apart for that, and a
	// switch between goroutines is nothing beside them.
	loneCalls  = 64
	loneWindow = 20 * time.Millisecond

	// loneTick is how often somebody looks whether a reply is missing or the connection idle, and never
	// less often than twenty times within a Timeout. A timer that rings wakes the runtime's monitor as
	// well, which on a busy CPU comes in the caller's way for a millisecond: where client and server share
	// one, a hundred ticks a second cost several calls in a hundred.
	loneTick = 100 * time.Millisecond

	// loneGrace is what a call gets whose context has ended: a reply that is known is worth more than a
	// few milliseconds.
	loneGrace = 10 * time.Millisecond

	// loneIdle is after how long without a call the connection is closed, or a tick later: nobody reads
	// from it, so what befalls it alone would be found by the next command only.
	loneIdle = 100 * time.Millisecond

	// lonePause is the least time between two such connections.
	lonePause = time.Second

	// loneLeft is how far away a context's deadline must be: far beside a reply, so that such a
	// context mostly ends elsewhere than within a call, which it then takes the grace to get out of.
	loneLeft = 100 * time.Millisecond
)

// lone is a connection that holds one call at a time. Its caller writes, flushes and receives.
type lone struct {
	conn    redis.Conn
	receive func() (any, error)
	every   time.Duration // a tick

	// Of the caller, and without one of whoever ends it.
	argv  []any           // empty between calls
	hears <-chan struct{} // of the last context that can end; its end is listened for across calls
	deaf  func()          // stops that; nil: there was none

	// mu of the link
	busy   bool
	ctx    context.Context // of the call
	turns  uint64          // calls so far
	seen   uint64          // of them at the last tick
	same   int             // ticks in a row that saw no new call
	doomed uint64          // the call whose grace is running; 0: none
	err    error           // why it ended; set when it is taken from the link
	tick   alarm
	grace  alarm
}

// warm counts a call that had the link to itself, and sees to a second connection when there were
// enough. mu is held.
func (l *link) warm(now int64) {
	if now-l.warmAt > int64(loneWindow) {
		l.warmAt, l.warmth = now, 0
	}
	l.warmth++
	if l.warmth < loneCalls || now-l.warmAt < int64(loneWindow/4) || now < l.coldTill ||
		l.lone.Load() != nil || l.opening != nil || l.m.tracker.armed.Load() > 0 {
		return
	}
	l.coldTill = now + int64(lonePause)
	ctx, cancel := context.WithCancelCause(context.Background())
	l.opening = cancel
	l.m.wg.Add(1) // l lives, so nobody waits for zero yet
	go l.openLone(ctx)
}

// openLone dials for a lone caller, which goes on through the link meanwhile. That it fails is no
// trouble of anybody's.
func (l *link) openLone(ctx context.Context) {
	defer l.m.wg.Done()
	conn, err := l.m.open(ctx, l.m.opts.Setup)
	l.mu.Lock()
	l.opening(nil)
	l.opening = nil
	wanted := err == nil && l.dead == nil && !l.retired.Load()
	if wanted {
		s := &lone{conn: conn, receive: patiently(conn)}
		s.every = max(min(loneTick, l.m.opts.Timeout/20), time.Millisecond)
		s.tick = alarm{wg: &l.m.wg, ring: func() { l.look(s) }}
		s.grace = alarm{wg: &l.m.wg, ring: func() { l.letGo(s) }}
		s.tick.set(s.every)
		l.m.wg.Add(1) // until it has ended and nobody uses it
		l.lone.Store(s)
	}
	l.mu.Unlock()
	if err == nil && !wanted {
		_ = conn.Close()
	}
}

// claim gives the second connection to a call if there is one and nobody else is under way; lone is
// nil if not. Keys that somebody watches are left to the link: the server would report our own writes
// to them that come from elsewhere.
func (m *Mux) claim(ctx context.Context) (*link, *lone) {
	l := m.link.Load()
	if l == nil {
		return nil, nil
	}
	s := l.lone.Load()
	if s == nil || m.tracker.armed.Load() > 0 {
		return nil, nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < loneLeft {
		return nil, nil
	}
	l.mu.Lock()
	// The context is asked in here: if it ends from now on, overheard finds the call.
	if l.lone.Load() != s || s.busy || l.retired.Load() || l.writing || len(l.queue) > 0 || l.flight.len() > 0 || ctx.Err() != nil {
		l.mu.Unlock()
		return nil, nil
	}
	s.busy, s.ctx = true, ctx
	s.turns++
	l.mu.Unlock()
	if done := ctx.Done(); done != nil && done != s.hears {
		l.listen(s, ctx)
	}
	return l, s
}

// listen has the end of ctx reported from now on, in place of the context before. A caller mostly comes
// again with the same one, so that no call pays for it.
func (l *link) listen(s *lone, ctx context.Context) {
	s.unlisten()
	l.m.wg.Add(1) // s lives, so nobody waits for zero yet
	stop := context.AfterFunc(ctx, func() {
		defer l.m.wg.Done()
		l.overheard(s)
	})
	s.hears, s.deaf = ctx.Done(), func() {
		if stop() {
			l.m.wg.Done()
		}
	}
}

// unlisten leaves no func behind that waits for a context.
func (s *lone) unlisten() {
	if s.deaf != nil {
		s.deaf()
	}
	s.hears, s.deaf = nil, nil
}

// put sends one command. Its arguments are copied, so that the caller's slice can live on its stack.
func (s *lone) put(name string, script *Script, args []any) error {
	room := s.argv[:0]
	if script != nil {
		name, room = "EVALSHA", append(room, script.sha, script.keys)
	}
	room = append(room, args...)
	err := s.conn.Send(name, room...)
	clear(room)
	s.argv = room
	if err == nil {
		err = s.conn.Flush()
	}
	return err
}

// alone is the whole of a call on s, which was claimed for it.
func (l *link) alone(s *lone, name string, script *Script, args []any) (v any, err error) {
	if err = s.put(name, script, args); err == nil {
		v, err = s.receive()
	}
	return v, l.leave(s, err)
}

// leave ends the call on s, and s with it unless err is nil or a reply of the server. It returns what the
// caller is to hear.
func (l *link) leave(s *lone, err error) error {
	failed := err != nil && !answered(err)
	if err != nil && !failed && IsReadOnly(err) {
		l.retire()
	}
	l.mu.Lock()
	s.busy, s.ctx = false, nil
	ended := s.err != nil
	if failed && !ended {
		l.drop(s, &lostError{err})
	}
	l.mu.Unlock()
	switch {
	case ended: // whoever ended it left this to us
		s.unlisten()
		l.m.wg.Done()
	case failed:
		l.bury(s, true)
	}
	if l.over() {
		l.fail(errRetired)
	}
	if failed {
		return &UnknownError{s.err, &Pending{lostCall(s.err), 0}}
	}
	return err
}

// lostCall is a call that was sent and whose reply will not come.
func lostCall(err error) *call {
	c := newCall()
	c.taken, c.err = true, err
	c.done <- struct{}{}
	return c
}

// drop takes s from the link. Its connection is to be closed without mu, which is held.
func (l *link) drop(s *lone, err error) {
	s.err = err
	l.lone.Store(nil)
	s.tick.stop()
	s.grace.stop()
	l.coldTill = int64(time.Since(l.born) + lonePause)
}

// bury closes a connection that was dropped while idle, or by its caller.
func (l *link) bury(s *lone, tell bool) {
	_ = s.conn.Close()
	s.unlisten()
	if tell && l.m.opts.Lost != nil {
		l.m.opts.Lost(s.err)
	}
	l.m.wg.Done()
}

// overheard begins the grace of the call under way, whose context may be the one that has ended.
func (l *link) overheard(s *lone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.busy && s.doomed == 0 {
		s.doomed = s.turns
		s.grace.set(loneGrace)
	}
}

// letGo is the end of a grace: it closes the connection under a call that is still there, if it was its
// context that ended.
func (l *link) letGo(s *lone) {
	l.mu.Lock()
	doomed := s.doomed
	s.doomed = 0
	if l.lone.Load() != s || !s.busy || s.ctx.Err() == nil {
		l.mu.Unlock()
		return
	}
	if s.turns != doomed { // its context ended within the grace of an earlier one
		s.doomed = s.turns
		s.grace.set(loneGrace)
		l.mu.Unlock()
		return
	}
	l.drop(s, context.Cause(s.ctx))
	l.mu.Unlock()
	_ = s.conn.Close() // its caller does the rest
}

// look is one tick: it closes a connection that is idle, and one whose server is silent.
func (l *link) look(s *lone) {
	l.mu.Lock()
	if l.lone.Load() != s {
		l.mu.Unlock()
		return
	}
	if s.turns != s.seen {
		s.seen, s.same = s.turns, 0
	} else {
		s.same++
	}
	why := l.verdict(s)
	if why == nil {
		s.tick.set(s.every)
		l.mu.Unlock()
		return
	}
	busy := s.busy
	l.drop(s, why)
	l.mu.Unlock()
	if !busy {
		l.bury(s, false)
		return
	}
	_ = s.conn.Close() // its caller does the rest
	if l.m.opts.Lost != nil {
		l.m.opts.Lost(why)
	}
}

// errIdle ends a connection that nobody uses; no call hears of it.
var errIdle = errUnused{}

type errUnused struct{}

func (errUnused) Error() string { return "not used any more" }

// verdict is why s must end, if it must. mu is held.
func (l *link) verdict(s *lone) error {
	same := time.Duration(s.same) * s.every
	switch {
	case s.busy && same >= l.m.opts.Timeout:
		return &silentError{l.m.opts.Timeout}
	case !s.busy && same >= loneIdle:
		return errIdle
	}
	return nil
}
