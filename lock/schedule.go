// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"container/heap"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// mostSlack is the longest time by which a renewal may be sent early, to share
// a message with other renewals.
const mostSlack = 50 * time.Millisecond

// stepCheck is how often wall and elapsed time are compared while leases are
// held. A wall clock that jumped forwards ends trust, and no timer reports it.
// Timers stand still while a machine is suspended. So this is also the longest
// time after its wake-up until Done of an ended lease is closed. [Lease.Err]
// compares the clocks itself and is right at once.
const stepCheck = 200 * time.Millisecond

// stepNoticed is how far the two clocks may drift apart between two looks
// before that counts as a step. Slewing moves both, or moves one by a
// thousandth of the time between looks.
const stepNoticed = 20 * time.Millisecond

// spot is the position of an event in a timeline.
type spot struct {
	at    time.Duration // elapsed time at which the event is due
	index int32         // index in the timeline plus one; 0: not in it
}

func (s *spot) place() *spot { return s }

// once is a func that runs once.
type once struct {
	spot
	run func()
}

// scheduler wakes leases and one-time funcs. It has one goroutine, which the
// first event starts, and arms one timer at a time.
type scheduler struct {
	keeper *keeper
	log    *slog.Logger
	serve  func(extends, watches []*Lease)

	mu      sync.Mutex
	leases  timeline[*Lease]
	funcs   timeline[*once]
	armed   time.Duration // elapsed time at which the goroutine wakes; never: only when poked
	started bool
	closed  bool

	poke chan struct{} // capacity 1: an earlier event came
	quit chan struct{} // closed by close
	done chan struct{} // closed when the goroutine is gone
}

func newScheduler(k *keeper, log *slog.Logger, serve func(extends, watches []*Lease)) *scheduler {
	return &scheduler{
		keeper: k, log: log, serve: serve, armed: never,
		poke: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

// set plans l for at, or moves it there.
func (s *scheduler) set(l *Lease, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.leases.set(l, at)
		s.due(at)
	}
}

// replace plans l for at. If old, the lease that handed its key over to l, is
// still planned, l takes its position, and old is planned no more.
func (s *scheduler) replace(old, l *Lease, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if i := old.index; i > 0 {
		s.leases[i-1], l.index, old.index = l, i, 0
		l.at = old.at
	}
	s.leases.set(l, at)
	s.due(at)
}

// later runs f once at the given elapsed time, on the scheduler's goroutine; f
// must not block. It reports false, and forgets f, when the scheduler is
// closed.
func (s *scheduler) later(at time.Duration, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.funcs.set(&once{run: f}, at)
	s.due(at)
	return true
}

// due makes sure that the goroutine is awake at the given time, or sooner.
// Called with s.mu held.
func (s *scheduler) due(at time.Duration) {
	if !s.started {
		s.started, s.armed = true, at
		go s.loop()
		return
	}
	if at < s.armed {
		s.armed = at // later events need no second poke
		select {
		case s.poke <- struct{}{}:
		default:
		}
	}
}

// drop forgets l.
func (s *scheduler) drop(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && l.index != 0 { // close has dropped all leases
		heap.Remove(&s.leases, int(l.index-1))
	}
}

// loop is the scheduler's goroutine. In each round it runs the funcs that are
// due. It ends the leases whose trust has run out. It hands the renewals and
// looks that are due to serve. Then it waits for the next event. If it wakes
// too early, the round does nothing.
func (s *scheduler) loop() {
	defer close(s.done)
	lead := s.lead(s.keeper.now())
	for {
		now := s.keeper.now()
		stepped := s.keeper.steps() && s.stepped(&lead, now)
		due, funcs, next := s.collect(now, stepped)
		for _, f := range funcs {
			f.run()
		}
		at := s.keeper.reading(now)
		for _, l := range due { // before anything that takes time, such as a log line
			l.expire(at)
		}
		var extends, watches []*Lease
		for _, l := range due {
			wants := l.tick(at)
			if wants&extending != 0 {
				extends = append(extends, l)
			}
			if wants&watching != 0 {
				watches = append(watches, l)
			}
		}
		if len(extends)+len(watches) > 0 {
			s.serve(extends, watches)
		}
		if len(due) > 0 || len(funcs) > 0 {
			continue // these leases and funcs may have planned something that is due already
		}
		var timer <-chan time.Time
		if next != never {
			timer = s.keeper.clock.After(max(next-now.Elapsed, 0))
		}
		select {
		case <-timer:
		case <-s.poke:
		case <-s.quit:
			return
		}
	}
}

// collect returns the leases and funcs that are due at now, and when loop has
// to wake next. If a lease is due, it also returns those whose renewals may be
// sent early together with that one. After a step of the wall clock all leases
// are due. The leases that it returns stay in the timeline, without a time.
// Their tick plans them anew.
func (s *scheduler) collect(now backend.Instant, stepped bool) (due []*Lease, funcs []*once,
	next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stepped {
		for _, l := range s.leases {
			l.at = min(l.at, now.Elapsed)
		}
		heap.Init(&s.leases)
	}
	for len(s.funcs) > 0 && s.funcs[0].at <= now.Elapsed {
		funcs = append(funcs, heap.Pop(&s.funcs).(*once))
	}
	// Renewals that are nearly due travel with one that is.
	for len(s.leases) > 0 {
		l := s.leases[0]
		if l.at > now.Elapsed && (len(due) == 0 || l.at > now.Elapsed+l.slack()) {
			break
		}
		due = append(due, l)
		// The lease stays in the timeline meanwhile: endAll must find it.
		s.leases.set(l, never)
	}
	next = never
	if len(s.funcs) > 0 {
		next = s.funcs[0].at
	}
	if len(s.leases) > 0 {
		next = min(next, s.leases[0].at)
	}
	if len(s.leases)+len(s.funcs) > 0 {
		if s.keeper.steps() {
			next = min(next, now.Elapsed+stepCheck)
		}
	}
	// The event for which this goroutine was to wake may be gone already: a
	// lease that was released at once. The goroutine still sleeps only until
	// then, so that the next such lease need not wake it.
	if s.armed > now.Elapsed {
		next = min(next, s.armed)
	}
	s.armed = next
	return due, funcs, next
}

// lead returns how far the wall clock is ahead of elapsed time.
func (s *scheduler) lead(now backend.Instant) time.Duration {
	return time.Duration(now.Wall.UnixNano()) - now.Elapsed
}

// stepped compares wall and elapsed time with the last look, whose difference
// is in last. It logs a jump of the wall clock, and reports whether the jump
// was forwards.
func (s *scheduler) stepped(last *time.Duration, now backend.Instant) bool {
	lead := s.lead(now)
	moved := lead - *last
	*last = lead
	if moved.Abs() < stepNoticed {
		return false
	}
	s.log.Warn("wall clock stepped, or the machine was suspended", "by", moved)
	return moved > 0
}

// endAll ends every lease that is still held and returns how many.
func (s *scheduler) endAll(cause error) int {
	s.mu.Lock()
	leases := slices.Clone(s.leases)
	s.mu.Unlock()
	n := 0
	for _, l := range leases {
		if l.end(cause) {
			n++
			l.passTurn(0)
			l.tellLost(cause)
		}
	}
	return n
}

// close ends the goroutine, waits for it, and forgets what was planned.
func (s *scheduler) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return
	}
	s.closed = true
	s.leases, s.funcs = nil, nil
	if !s.started {
		close(s.done)
	}
	close(s.quit)
	s.mu.Unlock()
	<-s.done
}

// timeline is a heap; its first element is the earliest event.
type timeline[E interface{ place() *spot }] []E

// set plans e for at, or moves it there.
func (t *timeline[E]) set(e E, at time.Duration) {
	p := e.place()
	p.at = at
	if p.index == 0 {
		heap.Push(t, e)
	} else {
		heap.Fix(t, int(p.index-1))
	}
}

func (t timeline[E]) Len() int           { return len(t) }
func (t timeline[E]) Less(i, j int) bool { return t[i].place().at < t[j].place().at }
func (t timeline[E]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place().index, t[j].place().index = int32(i+1), int32(j+1)
}

func (t *timeline[E]) Push(x any) {
	e := x.(E)
	*t = append(*t, e)
	e.place().index = int32(len(*t))
}

func (t *timeline[E]) Pop() any {
	var none E
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = none
	*t = (*t)[:last]
	e.place().index = 0
	return e
}

// workers runs funcs on at most a few goroutines, which end when no work is
// left.
type workers struct {
	most int

	mu      sync.Mutex
	todo    []func()
	running int
	closed  bool
	wg      sync.WaitGroup
}

func newWorkers(most int) *workers { return &workers{most: most} }

// do runs f on a worker. It returns false after close.
func (w *workers) do(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.todo = append(w.todo, f)
	if w.running < w.most {
		w.running++
		w.wg.Go(w.work)
	}
	return true
}

// work runs funcs until none is left.
func (w *workers) work() {
	for {
		w.mu.Lock()
		if len(w.todo) == 0 {
			w.running--
			w.mu.Unlock()
			return
		}
		f := w.todo[0]
		w.todo[0] = nil
		w.todo = w.todo[1:]
		w.mu.Unlock()
		f()
	}
}

// close refuses more work, and waits until all of it is done.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
}
