// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"log/slog"
	"sync"
)

// mostTold is how many calls of hooks may wait while one blocks. Later calls
// are left out, and the log says so: a program that runs for weeks must not
// fill its memory because a hook never returned.
const mostTold = 1 << 16

// teller calls the hooks of all Clients on one Backend, one after the other, in
// the order in which things happened. It has a goroutine only while calls are
// waiting. So a hook that blocks delays only later hooks: neither a lease nor a
// caller waits for a hook.
type teller struct {
	log *slog.Logger

	mu      sync.Mutex
	todo    []telling
	running bool
	full    bool          // calls are left out because todo was full
	quiet   chan struct{} // closed when no call waits any more; nil: not requested
}

type telling struct {
	hook func(Event)
	e    Event
}

// tell queues a call of hook with e, unless hook is nil. It logs the first of
// several calls that are left out, while it holds no mutex: a log handler may
// be slow.
func (t *teller) tell(hook func(Event), e Event) {
	if hook == nil {
		return
	}
	if waiting, say := t.queue(telling{hook, e}); say {
		t.log.Error("a hook of lock.Config.Hooks blocks: calls of hooks are left out until it returns",
			"waiting", waiting)
	}
}

// queue adds a call, or leaves it out where too many wait. It returns how many
// wait, and whether this call is the first of several that are left out.
func (t *teller) queue(call telling) (waiting int, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if waiting = len(t.todo); waiting >= mostTold {
		first, t.full = !t.full, true
		return waiting, first
	}
	t.full = false
	t.todo = append(t.todo, call)
	if !t.running {
		t.running = true
		go t.run()
	}
	return len(t.todo), false
}

// run makes the waiting calls. It is the goroutine of the teller.
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

// silence returns a channel that is closed when no call waits any more.
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
