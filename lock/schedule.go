package lock

import (
	"container/heap"
	"log/slog"
	"sync"
	"time"
)

// window is how far ahead the scheduler looks for renewals that can travel together.
const window = 50 * time.Millisecond

// stepCheck is how often wall and elapsed time are compared while leases are held: a wall clock that
// jumped forwards ends trust, and no timer tells of it.
const stepCheck = time.Second

// stepNoticed is how far the two clocks may drift apart between two looks without a word. Slewing
// moves both, or a thousandth of the time between looks.
const stepNoticed = 20 * time.Millisecond

// event is a moment at which something is to be looked at: a lease, or a func that runs once.
type event struct {
	at    time.Duration // elapsed time
	index int           // in the heap plus one; 0: not in it
	lease *Lease
	run   func()
}

// scheduler wakes leases and one-time funcs. It has one goroutine, started with the first event,
// and one timer armed at a time.
type scheduler struct {
	keeper *keeper
	log    *slog.Logger
	serve  func(extends, guards []*Lease)

	mu      sync.Mutex
	heap    events
	armed   time.Duration // when the goroutine wakes by itself; never: only when poked
	started bool
	closed  bool

	poke chan struct{} // capacity 1: an earlier event came
	quit chan struct{} // closed by close
	done chan struct{} // closed when the goroutine is gone
}

func newScheduler(k *keeper, log *slog.Logger, serve func(extends, guards []*Lease)) *scheduler {
	return &scheduler{
		keeper: k, log: log, serve: serve, armed: never,
		poke: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

// set plans e for at, or moves it there; false when the scheduler is closed.
func (s *scheduler) set(e *event, at time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	e.at = at
	if e.index == 0 {
		heap.Push(&s.heap, e)
	} else {
		heap.Fix(&s.heap, e.index-1)
	}
	if !s.started {
		s.started, s.armed = true, at
		go s.loop()
		return true
	}
	if at < s.armed {
		s.armed = at // do not poke again for later ones
		select {
		case s.poke <- struct{}{}:
		default:
		}
	}
	return true
}

// later runs f once at the given elapsed time, on the scheduler's goroutine; f must not block. It
// reports false, and forgets f, when the scheduler is closed.
func (s *scheduler) later(at time.Duration, f func()) bool {
	return s.set(&event{run: f}, at)
}

// hasten makes every func that was planned due now.
func (s *scheduler) hasten() {
	now := s.keeper.now().Elapsed
	s.mu.Lock()
	for _, e := range s.heap {
		if e.run != nil {
			e.at = now
		}
	}
	heap.Init(&s.heap)
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// drop forgets e.
func (s *scheduler) drop(e *event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index != 0 {
		heap.Remove(&s.heap, e.index-1)
	}
}

// loop waits for the next event. A timer that was armed too early costs one empty round.
func (s *scheduler) loop() {
	defer close(s.done)
	gap := s.gap(s.keeper.now())
	for {
		now := s.keeper.now()
		stepped := s.keeper.steps() && s.stepped(&gap, now)
		due, funcs, next := s.collect(now, stepped)
		for _, f := range funcs {
			f()
		}
		var extends, guards []*Lease
		for _, l := range due {
			wants := l.tick(now)
			if wants&extending != 0 {
				extends = append(extends, l)
			}
			if wants&guarding != 0 {
				guards = append(guards, l)
			}
		}
		if len(extends)+len(guards) > 0 {
			s.serve(extends, guards)
		}
		if len(due) > 0 || len(funcs) > 0 {
			continue // they may have planned something that is due already
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

// collect takes out what is due; all leases are looked at after a step.
func (s *scheduler) collect(now Instant, stepped bool) (due []*Lease, funcs []func(), next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stepped {
		for _, e := range s.heap {
			if e.lease != nil && e.at > now.Elapsed {
				e.at = now.Elapsed
			}
		}
		heap.Init(&s.heap)
	}
	// Renewals that are nearly due travel with one that is.
	for len(s.heap) > 0 && (s.heap[0].at <= now.Elapsed || len(due) > 0 && s.heap[0].at <= now.Elapsed+s.ahead(s.heap[0])) {
		e := heap.Pop(&s.heap).(*event)
		if e.lease != nil {
			due = append(due, e.lease)
		} else {
			funcs = append(funcs, e.run)
		}
	}
	// Leases stay in the heap while they are looked at: endAll must find each of them.
	for _, l := range due {
		l.event.at = never
		heap.Push(&s.heap, &l.event)
	}
	next = never
	if len(s.heap) > 0 {
		next = s.heap[0].at
		if s.keeper.steps() {
			next = min(next, now.Elapsed+stepCheck)
		}
	}
	// What this goroutine was woken for may be gone already: a lease that was released at once. It
	// sleeps until then all the same, so that the next such lease need not wake it.
	if s.armed > now.Elapsed {
		next = min(next, s.armed)
	}
	s.armed = next
	return due, funcs, next
}

// ahead is how much too early an event may be taken: a lease knows what it wants by itself, a func
// does not.
func (s *scheduler) ahead(e *event) time.Duration {
	if e.lease == nil {
		return 0
	}
	return e.lease.slack()
}

func (s *scheduler) gap(now Instant) time.Duration {
	return time.Duration(now.Wall.UnixNano()) - now.Elapsed
}

// stepped compares wall and elapsed time with the last look and reports a jump of the wall clock.
func (s *scheduler) stepped(last *time.Duration, now Instant) bool {
	gap := s.gap(now)
	moved := gap - *last
	*last = gap
	if moved.Abs() < stepNoticed {
		return false
	}
	s.log.Warn("wall clock stepped, or the machine was suspended", "by", moved)
	return moved > 0
}

// endAll ends every lease that is still held and returns how many.
func (s *scheduler) endAll(cause error) int {
	s.mu.Lock()
	var leases []*Lease
	for _, e := range s.heap {
		if e.lease != nil {
			leases = append(leases, e.lease)
		}
	}
	s.mu.Unlock()
	n := 0
	for _, l := range leases {
		if l.end(cause) {
			n++
			l.passTurn(0)
		}
	}
	return n
}

// close joins the goroutine and forgets what was planned.
func (s *scheduler) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return
	}
	s.closed = true
	s.heap = nil
	if !s.started {
		close(s.done)
	}
	close(s.quit)
	s.mu.Unlock()
	<-s.done
}

type events []*event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *events) Push(x any) {
	e := x.(*event)
	*h = append(*h, e)
	e.index = len(*h)
}

func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = 0
	return e
}

// workers runs funcs on at most a few goroutines, which end when nothing is left to do.
type workers struct {
	most int

	mu      sync.Mutex
	todo    []func()
	running int
	wg      sync.WaitGroup
}

func newWorkers(most int) *workers { return &workers{most: most} }

func (w *workers) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo = append(w.todo, f)
	if w.running < w.most {
		w.running++
		w.wg.Go(w.work)
	}
}

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

// close waits until all work is done.
func (w *workers) close() { w.wg.Wait() }
