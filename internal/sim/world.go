// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// world is one play of a plan: the server, the processes, and what happens to
// them.
type world struct {
	plan    *Plan
	h       *History
	redis   *redistest.World
	more    []*redistest.World // of a quorum
	ups     map[int]uptime     // since when each server is up; nil: it does not say that
	procs   []*process
	scripts scripts
	work    sync.WaitGroup // goroutines of links and of background calls
	running sync.WaitGroup // operations
	ops     sync.Map       // operations by their goroutines

	mu      sync.Mutex
	rushes  map[int]chan struct{} // operations that rush: a job ends when this is closed
	keys    []*key
	pending map[int]bool             // operations under way
	beats   map[string]time.Duration // last heartbeat of a member, by its id
	late    []act                    // starts of processes
	grants  map[string]grant         // by token
	operator
}

// operator is what the operator of a migration knows and says.
type operator struct {
	said   migrate.Record // what the record said when the operator changed it last
	stated migrate.Phase  // what the operator says of a lost record
	watch  watch
}

// key is a lock as the server has it.
type key struct {
	number  int
	name    string // for the packages under test
	watched string // where the token stands
	value   string
	until   time.Duration // when the server ends it; 0: never
	expiry  *time.Timer
	markEnd *time.Timer // when the token of a composed lease ends on the old clients' server
	leases  []*held
	votes   []vote        // of a quorum's servers
	written time.Duration // when an old client wrote to it last; 0: never
	stamped time.Duration // … without a pause between its look and that
	tried   time.Duration // when one tried for it in vain last; 0: never
}

// Play runs the plan and returns what happened.
func Play(t *testing.T, p *Plan) (h *History) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h = newHistory(p)
		w := &world{plan: p, h: h, redis: redistest.Bubble(t),
			rushes: map[int]chan struct{}{}, pending: map[int]bool{},
			beats: map[string]time.Duration{}, grants: map[string]grant{}}
		for n := range p.Keys {
			name := "k" + strconv.Itoa(n)
			w.keys = append(w.keys, &key{number: n, name: name, watched: p.watched(name),
				votes: make([]vote, p.Nodes)})
		}
		w.quorate(t)
		w.seat(t)
		w.began()
		for id := range p.Procs {
			w.procs = append(w.procs, w.start(t, id))
		}
		w.play()
		w.end()
		h.dated()
		h.settle()
		h.reached()
	})
	return h
}

// act is something that happens at an instant.
type act struct {
	at time.Duration
	do func()
}

// play does what is planned, each act at its instant.
func (w *world) play() {
	var acts []act
	for _, f := range w.plan.Faults {
		if f.Nth == 0 {
			acts = append(acts, w.acts(f)...)
		}
	}
	for _, o := range w.plan.Ops {
		if !o.Rushes {
			acts = append(acts, act{o.At, func() { w.operate(o) }})
		}
	}
	acts = append(append(acts, w.disordered()...), w.late...)
	slices.SortStableFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	for _, a := range acts {
		time.Sleep(a.at - w.h.now())
		a.do()
	}
	time.Sleep(w.plan.quiet() - w.h.now())
}

// patience is how long operations may go on after the last fault: each waits
// for all the others at most.
func (w *world) patience() time.Duration {
	if w.plan.Old.unmended() {
		return 10 * time.Second // some wait for ever
	}
	long := 2*w.plan.longest() + w.plan.oldGap() + time.Minute
	for _, o := range w.plan.Ops {
		long += o.Hold + time.Second
	}
	return long
}

// end waits for the operations, closes the processes, and looks what is left.
func (w *world) end() {
	over := make(chan struct{})
	w.work.Go(func() { w.running.Wait(); close(over) })
	select {
	case <-over:
	case <-time.After(w.patience()):
		w.stuck()
	}
	for _, p := range w.procs {
		p.stop(errEnd)
	}
	<-over
	w.rest()
	closing, cancel := context.WithTimeout(context.Background(), 2*w.plan.longest()+time.Minute)
	defer cancel()
	for _, p := range w.procs {
		p.close(closing)
	}
	if len(w.plan.Faults) == 0 && !w.plan.ends() && w.plan.Old == nil {
		time.Sleep(time.Second) // what releases left to old clients is over
		w.left("a second after Close")
	}
	time.Sleep(w.plan.longest() + queueLasts)
	w.look("expired", Server)
	w.left("after all")
	for _, k := range w.keys {
		k.expiry, k.markEnd = rearm(k.expiry, 0, nil), rearm(k.markEnd, 0, nil)
	}
	for _, p := range w.procs {
		for _, l := range p.open() {
			w.h.add(Event{Kind: Left, Proc: p.id, Op: None, Text: "a connection"})
			l.cut()
		}
	}
	w.work.Wait()
}

// rest looks whether processes without operations send anything.
func (w *world) rest() {
	if w.plan.Form == Bridged || w.plan.Seed%2 == 0 {
		return
	}
	const calm = 6 * time.Second // there is a PING each second while a place waits
	time.Sleep(w.plan.longest() + calm + time.Second)
	if w.plan.Form == Quorum {
		time.Sleep(w.plan.longest()) // an attempt is undone for a TTL after its answer was missing
	}
	for _, p := range w.procs {
		if n := w.h.since(p.id, w.h.now()-calm); n > 0 {
			w.h.add(Event{Kind: Left, Proc: p.id, Op: None,
				Text: fmt.Sprintf("%d messages without an operation", n)})
		}
	}
}

var errEnd = errors.New("sim: the play is over")

// queueLasts is longer than a queue's keys live.
const queueLasts = 21 * time.Second

// stuck records the operations that have not ended.
func (w *world) stuck() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.plan.Ops {
		if w.pending[o.ID] {
			w.h.add(Event{Kind: Stuck, Proc: o.Proc, Op: o.ID, Key: o.Key})
		}
	}
}

// left records the keys that are on the server, except the fencing counter and
// the record of a quorum.
func (w *world) left(when string) {
	for n := range w.plan.servers() {
		target := w.plan.composed() && n == theTarget
		if target {
			when = "at the target"
		}
		w.node(n).ServerNow()
		for _, name := range w.node(n).Mini.Keys() {
			if !strings.HasPrefix(name, "gsl:fence:") && name != "gsl:quorum" && (target || !w.stays(name)) {
				w.h.add(Event{Kind: Left, Proc: Server, Op: None, Text: "key " + name + " " + when})
			}
		}
	}
}

// rearm stops a timer, if there is one, and returns a new one; nil: it is to
// call nothing.
func rearm(t *time.Timer, after time.Duration, do func()) *time.Timer {
	if t != nil {
		t.Stop()
	}
	if after <= 0 {
		return nil
	}
	return time.AfterFunc(after, do)
}
