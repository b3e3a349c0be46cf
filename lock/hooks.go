package lock

import (
	"log/slog"
	"sync"
)

// mostTold is how many calls of hooks may wait for one that blocks. Later ones
// are left out, and the log says so: a program that runs for weeks must not
// fill its memory because a hook never returned.
const mostTold = 1 << 16

// teller calls the hooks of all Clients on one Backend, one after the other, in
// the order in which things happened. It has a goroutine only while there is
// something to tell, so that a hook that blocks holds up later hooks alone:
// neither a lease nor a caller waits for one.
type teller struct {
	log *slog.Logger

	mu      sync.Mutex
	todo    []telling
	running bool
	full    bool          // calls are left out since todo was full
	quiet   chan struct{} // closed when nothing is left to tell; nil: nobody asked
}

type telling struct {
	hook func(Event)
	e    Event
}

// tell has hook called with e, unless it is nil.
func (t *teller) tell(hook func(Event), e Event) {
	if hook == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.todo) >= mostTold {
		if !t.full {
			t.full = true
			t.log.Error("a hook of lock.Config.Hooks blocks: calls of hooks are left out until it returns", "waiting", len(t.todo))
		}
		return
	}
	t.full = false
	t.todo = append(t.todo, telling{hook, e})
	if !t.running {
		t.running = true
		go t.run()
	}
}

// run is the goroutine.
func (t *teller) run() {
	for {
		t.mu.Lock()
		if len(t.todo) == 0 {
			t.todo = nil
			t.running = false
			if t.quiet != nil {
				close(t.quiet)
				t.quiet = nil
			}
			t.mu.Unlock()
			return
		}
		next := t.todo[0]
		t.todo[0] = telling{}
		t.todo = t.todo[1:]
		t.mu.Unlock()
		next.hook(next.e)
	}
}

// silence returns what is closed when nothing is left to tell.
func (t *teller) silence() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.running:
		return alreadyDone
	case t.quiet == nil:
		t.quiet = make(chan struct{})
	}
	return t.quiet
}
