// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// acts returns what a fault does, and when. Faults that only hold or refuse
// messages do nothing: the links read the plan.
func (w *world) acts(f Fault) []act {
	var acts []act
	begin := func() { w.strike(f) }
	switch f.Kind {
	case Freeze:
		begin = w.procs[f.Proc].clock.Freeze
		acts = append(acts, act{f.end(), w.procs[f.Proc].thaw})
	case Suspend:
		begin = func() { w.machine(f, (*redistest.Clock).Suspend) }
		acts = append(acts, act{f.end(), func() { w.machine(f, (*redistest.Clock).Resume) }})
	case Step:
		begin = func() { w.machine(f, func(c *redistest.Clock) { c.Step(f.Amount) }) }
	case FailOver:
		promote := func() {}
		acts = append(acts, act{max(f.At-f.Amount, 0), func() { promote = w.redis.Replica() }})
		begin = func() { w.cut(All, 0); promote(); w.look(string(f.Kind), Server) }
	}
	return append(acts, act{f.At, func() {
		w.h.add(Event{Kind: Happened, Proc: f.Proc, Op: None, Text: f.String()})
		begin()
	}})
}

// strike does what a fault does to servers at once.
func (w *world) strike(f Fault) {
	for n := range w.plan.servers() {
		if f.Node == 0 || f.Node == n+1 {
			w.strikes(f, n)
		}
	}
	w.look(string(f.Kind), Server)
}

func (w *world) strikes(f Fault, node int) {
	server := w.node(node)
	switch f.Kind {
	case Restart, Reboot:
		w.cut(All, node)
		if f.Kind == Restart {
			server.Restart()
		} else {
			server.FlushScripts()
		}
		w.restarted(node)
	case Flush:
		server.ServerNow()
		server.Mini.FlushAll()
	case ScriptFlush:
		server.FlushScripts()
	case ServerStep:
		server.StepServer(f.Amount)
	case Refuse:
		w.cut(f.Proc, node)
	case Stall:
		for l := range w.links(f.Proc, node) {
			l.up.stalls(f.end())
		}
	case Silence, MuteReplies:
		for l := range w.links(f.Proc, node) {
			l.mute.Store(f.Kind == Silence)
			l.deaf.Store(true)
		}
	}
}

// links are the open connections of a process to a server.
func (w *world) links(proc, node int) iter.Seq[*link] {
	return func(yield func(*link) bool) {
		for _, p := range w.procs {
			for _, l := range p.open() {
				if (proc == All || p.id == proc) && l.node == node && !yield(l) {
					return
				}
			}
		}
	}
}

// cut closes the connections of a process to a server.
func (w *world) cut(proc, node int) {
	for l := range w.links(proc, node) {
		l.cut()
	}
}

// String describes the fault.
func (f Fault) String() string {
	s := string(f.Kind)
	if f.Proc != All {
		s += fmt.Sprintf(" of p%d", f.Proc)
	}
	if f.Node > 0 {
		s += fmt.Sprintf(" at s%d", f.Node)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	if f.Nth > 0 {
		s += fmt.Sprintf(" at its write %d", f.Nth)
	}
	if f.Amount != 0 {
		s += fmt.Sprintf(" by %v", f.Amount)
	}
	return s
}

// machine changes the clocks of all processes on the machine of a fault.
func (w *world) machine(f Fault, change func(*redistest.Clock)) {
	for _, p := range w.procs {
		if w.plan.onMachine(f, p.id) {
			change(p.clock)
		}
	}
}

// onMachine reports whether a process is on the machine that a fault hits.
func (p *Plan) onMachine(f Fault, proc int) bool {
	return f.Proc != All && f.is(Suspend, Step) &&
		p.Procs[proc].Machine == p.Procs[f.Proc].Machine
}

// refusals are the errors of a server in trouble, and the commands that it
// executes all the same.
var refusals = map[FaultKind]struct {
	text   string
	spares []string
}{
	Loading:  {redistest.Loading, nil},
	Busy:     {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", nil},
	NoAuth:   {"NOAUTH Authentication required.", nil},
	ReadOnly: {redistest.ReadOnly, harmless},
	OOM:      {redistest.OOM, append([]string{"DEL", "DELEX"}, harmless...)},
}

// harmless are the commands that write nothing.
var harmless = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PING", "CLIENT", "INFO", "GET", "TIME"}

// refusal returns the server's error if a fault makes it refuse a request.
func (w *world) refusal(plan *Plan, c redistest.Command) string {
	for _, f := range plan.Faults {
		r, refuses := refusals[f.Kind]
		if refuses && f.covers(w.h.now()) && !slices.ContainsFunc(r.spares, c.Is) {
			return r.text
		}
	}
	return ""
}

// later returns after what time a message to a subscriber comes, or comes once
// more.
func (w *world) later(proc int) (pause time.Duration, twice bool) {
	now := w.h.now()
	for _, f := range w.plan.Faults {
		if (f.Kind == Twice || f.Kind == Late) && f.hits(proc) && f.covers(now) && f.covers(now+f.Amount) {
			d := dice{rand.New(rand.NewPCG(w.plan.Seed, uint64(now)))}
			return 1 + d.nanos(f.Amount), f.Kind == Twice
		}
	}
	return 0, false
}

// trapped are the commands that a trap waits for.
var trapped = []string{"SET", "EVAL", "EVALSHA", "DEL", "DELEX"}

// trap returns what happens to a packet of requests or to its replies.
func (l *link) trap(plan *Plan, proc int, all []message) FaultKind {
	if !slices.ContainsFunc(all, func(m message) bool { return slices.ContainsFunc(trapped, m.name.Is) }) {
		return ""
	}
	w := l.w
	now := w.h.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l.writes++
	for _, f := range plan.Faults {
		due := f.covers(now)
		if f.Nth > 0 {
			due = f.Nth <= l.writes
		}
		if _, acted := w.h.sprung[f.ID]; acted || !f.is(traps...) || !f.hits(proc) || !due {
			continue
		}
		if w.h.sprung[f.ID] = now; f.Nth > 0 {
			w.h.add(Event{Kind: Happened, Proc: proc, Op: None, Text: f.String()})
		}
		return f.Kind
	}
	return ""
}

// look compares the keys with what they were, and records what changed and why.
// If a key no longer has the token of a lease, look asks that lease whether it
// is trusted.
func (w *world) look(cause string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		w.ballots(k, cause, by)
		value, until := w.elected(k)
		if value == k.value && until == k.until {
			continue
		}
		k.value, k.until = value, until
		w.h.add(Event{Kind: Changed, Proc: by, Op: None, Key: k.number, Token: w.h.number(value),
			Until: until, Text: cause})
		k.expiry = rearm(k.expiry, k.until-w.h.now(), func() { w.look("expired", Server) })
		w.doubt(k)
	}
}

// doubt looks at the leases of a key that has another token. w.mu is held.
func (w *world) doubt(k *key) {
	for _, l := range k.leases {
		if !l.stands() {
			w.h.add(l.looked())
		}
	}
}

// word returns the token in a key's value.
func word(value string) string {
	token, _, _ := strings.Cut(value, " ")
	return token
}
