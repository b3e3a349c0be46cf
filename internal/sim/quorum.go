// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// greatestTTL is how long a server of a quorum does not vote after a restart.
const greatestTTL = 6 * time.Second

// drawQuorum draws a plan whose processes lock on a majority of servers. What
// goes wrong with servers goes wrong with one at a time, or with a few.
func (d dice) drawQuorum(p *Plan) {
	p.Keys, p.Nodes = 1+d.IntN(2), pick(d, 3, 3, 5)
	p.Fenced = d.one(3)
	for range 1 + d.IntN(3) {
		p.Machines = append(p.Machines, d.machine())
	}
	for range 2 + d.IntN(3) {
		c := d.proc(p)
		c.TTL = pick(d, time.Second, 2*time.Second, 5*time.Second)
		c.Margin = c.TTL / 10
		c.RenewEvery = pick(d, 0, 0, c.TTL/4)
		p.Procs = append(p.Procs, c)
	}
	only := d.one(2) // one server is the only one with trouble
	span := 25*time.Second + d.nanos(20*time.Second)
	for range 40 + d.IntN(40) {
		o := d.op(p, span)
		if only && d.one(4) {
			o.Hold = d.between(100*time.Millisecond, 2*p.Procs[o.Proc].TTL)
		}
		p.op(o)
	}
	node := d.serverFaults(p, span, only)
	for range d.IntN(4) {
		if !only {
			d.bare(p)
		}
	}
	if only && d.one(2) { // a lease that lasts loses a vote, and takes it again
		o := &p.Ops[d.IntN(len(p.Ops))]
		c := &p.Procs[o.Proc]
		o.At, o.Kind, o.Cancel, o.Hold = d.nanos(2*time.Second), Acquire, 0, 16*time.Second
		c.RenewEvery, c.Longest = 0, 0
		p.fault(Fault{At: o.At + 2*time.Second + d.nanos(time.Second), For: c.TTL + time.Second, Proc: All,
			Node: node, Kind: pick(d, Restart, Refuse)})
	}
	p.keep()
	if d.one(4) {
		d.strange(p)
	}
}

// serverFaults draws what goes wrong with servers: with one alone, which it
// returns, or with any.
func (d dice) serverFaults(p *Plan, span time.Duration, only bool) (node int) {
	kinds := []FaultKind{Hold, HoldRequest, HoldReply, Slow, Silence, MuteReplies, Refuse, Refuse, CutBefore,
		CutAfter, CutWithin, Stall, Freeze, Suspend, Restart, Restart, Reboot, ScriptFlush, Loading, OOM,
		Busy}
	node = 1 + d.IntN(p.Nodes)
	for range d.IntN(14) {
		f := d.fault(p, span)
		if !slices.Contains(kinds, f.Kind) {
			f = Fault{At: f.At, Proc: d.IntN(len(p.Procs)), Kind: Refuse,
				For: d.nanos(2 * p.longest())}
		}
		if !only {
			node = 1 + d.IntN(p.Nodes)
		}
		if f.Node = node; f.is(Freeze, Suspend) {
			if f.Node = 0; only {
				continue
			}
		}
		p.fault(f)
	}
	return node
}

// Strange says what is unusual about the records of a quorum; empty: nothing.
type Strange string

// Unusual records.
const (
	Fresh   Strange = "fresh"   // there is none when the play begins
	Another Strange = "another" // that of the first server names other servers
	Differs Strange = "differs" // the last process is configured for another greatest TTL
)

// strange draws unusual records. What is asked of servers without a record is
// answered two minutes later, so half of the operations come then.
func (d dice) strange(p *Plan) {
	p.Strange = pick(d, Fresh, Another, Differs)
	for i := range p.Ops {
		if o := &p.Ops[i]; p.Strange == Fresh && o.ID%2 == 0 {
			o.At += freshRest - 10*time.Second
		}
	}
	if p.Strange == Fresh && d.one(2) { // nothing is watched before all servers have answered
		p.fault(Fault{For: d.nanos(15 * time.Second), Proc: All,
			Node: 1 + d.IntN(p.Nodes), Kind: Refuse})
	}
	if p.Strange != Differs {
		p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
			return f.Kind.forgets() || f.Kind == Reboot
		})
	}
}

// freshRest is how long servers without any record do not vote.
const freshRest = 2 * time.Minute

// keep lets servers keep their keys when they restart, except for a minority. A
// majority that has forgotten everything does not vote for two minutes.
func (p *Plan) keep() {
	empty := map[int]bool{}
	for i := range p.Faults {
		f := &p.Faults[i]
		if f.Kind == Restart && !empty[f.Node] && len(empty) == p.Nodes/2 {
			f.Kind = Reboot
		} else if f.Kind == Restart {
			empty[f.Node] = true
		}
	}
}

// bare lets a holder have a majority and no vote more, and then lose a vote, or
// reach too few servers to renew. Others try for the key meanwhile.
func (d dice) bare(p *Plan) {
	o := &p.Ops[d.IntN(len(p.Ops))]
	ttl := p.Procs[o.Proc].TTL
	o.Kind, o.Cancel, o.Hold = pick(d, Acquire, Do), 0, 2*ttl+d.nanos(ttl)
	order := d.Perm(p.Nodes)
	few := order[:p.Nodes/2]
	switch d.IntN(3) {
	case 0:
		for _, n := range few {
			p.fault(Fault{At: max(0, o.At-20*time.Millisecond), For: 50*time.Millisecond + d.nanos(ttl/2),
				Proc: o.Proc, Kind: pick(d, Refuse, Hold, HoldReply, HoldRequest), Node: n + 1})
		}
		p.fault(Fault{At: o.At + 30*time.Millisecond + d.nanos(ttl/2),
			For: time.Millisecond + d.nanos(50*time.Millisecond), Proc: All,
			Kind: pick(d, Restart, Restart, Refuse, Loading), Node: order[len(few)] + 1})
	default: // while it holds, or as it lets go
		at := o.At + pick(d, 20*time.Millisecond+d.nanos(ttl/2), o.Hold-5*time.Millisecond)
		for _, n := range order[:p.Nodes/2+1] {
			p.fault(Fault{At: at, For: ttl + d.nanos(ttl), Proc: o.Proc, Node: n + 1,
				Kind: pick(d, Refuse, Hold, HoldReply, HoldRequest)})
		}
	}
	for range 3 {
		p.op(Op{At: o.At + d.nanos(2*ttl), Proc: d.IntN(len(p.Procs)),
			Key: o.Key, Kind: Acquire, Hold: ttl/2 + d.nanos(ttl)})
	}
}

// servers returns how many servers there are.
func (p *Plan) servers() int {
	if p.composed() {
		return theTarget + 1
	}
	return max(p.Nodes, 1)
}

// on returns the plan with the faults that concern a server.
func (p *Plan) on(node int) *Plan {
	if p.servers() == 1 {
		return p
	}
	some := *p
	some.Faults = slices.DeleteFunc(slices.Clone(p.Faults),
		func(f Fault) bool { return f.Node != 0 && f.Node != node+1 })
	return &some
}

// node returns a server.
func (w *world) node(n int) *redistest.World {
	if n == 0 {
		return w.redis
	}
	return w.more[n-1]
}

// uptime is a server's present run.
type uptime struct {
	run   int
	since time.Duration
}

// quorate makes the servers of a quorum, and lets them answer INFO. It lets the
// one server of a fleet do so too.
func (w *world) quorate(t *testing.T) {
	if w.plan.Form != Quorum && w.plan.Old == nil {
		return
	}
	w.ups = map[int]uptime{}
	if w.plan.composed() {
		w.more = append(w.more, redistest.Bubble(t))
	}
	for n := range max(w.plan.Nodes, 1) {
		if n > 0 {
			w.more = append(w.more, redistest.Bubble(t))
		}
		w.ups[n] = uptime{since: -longAgo}
	}
}

// seat lets the servers of a quorum vote at once: their clients have watched
// them before.
func (w *world) seat(t *testing.T) {
	if w.plan.Form != Quorum {
		return
	}
	d := dice{rand.New(rand.NewPCG(w.plan.Seed, 0x766f7465))}
	for n := range w.plan.Nodes { // clocks of servers are apart, and so are the numbers that they draw
		w.node(n).StepServer(d.nanos(20*time.Second) - 10*time.Second)
	}
	if w.plan.Strange == Fresh {
		return
	}
	var names []string
	for n := range w.plan.Nodes {
		names = append(names, fmt.Sprint("s", n))
	}
	for n, name := range names {
		do := func(command string, args ...any) (any, error) {
			if command == "INFO" {
				return w.info(n), nil
			}
			for i := 1; i < len(args); i += 2 {
				w.node(n).Mini.HSet(fmt.Sprint(args[0]), fmt.Sprint(args[i]), fmt.Sprint(args[i+1]))
			}
			return nil, nil
		}
		listed := names
		if w.plan.Strange == Another && n == 0 {
			listed = []string{name, "t1", "t2"}
		}
		if err := redistest.Seat(do, name, listed, greatestTTL); err != nil {
			t.Fatal(err)
		}
	}
}

// restarted notes a new run of a server.
func (w *world) restarted(node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan.Form == Quorum {
		w.h.sometimes("a server of a quorum has restarted")
	}
	if w.ups != nil {
		w.ups[node] = uptime{w.ups[node].run + 1, w.h.now()}
	}
}

// info is a server's reply to INFO.
func (w *world) info(node int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	up := w.ups[node]
	text := fmt.Sprintf("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:run-%d-%d\r\n"+
		"uptime_in_seconds:%d\r\nrole:master\r\nconnected_slaves:0\r\nsecond_repl_offset:-1\r\n",
		node+1, up.run, int((w.h.now()-up.since)/time.Second))
	text += "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
}

// quorum opens a backend over all servers.
func (p *process) quorum(c Proc, wake backend.Wake) (backend.Store, error) {
	var members []quorum.Member
	for n := range p.w.plan.Nodes {
		m, err := modern.New(p.poolOf(n, false), modern.Config{Name: fmt.Sprint("s", n),
			Fence: p.w.plan.Fenced, Wake: wake,
			Timeout: c.Timeout})
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	greatest := greatestTTL
	if p.w.plan.differs(p.id) {
		greatest += time.Second
	}
	return quorum.New(members, quorum.Config{GreatestTTL: greatest, Fences: p.w.plan.Fenced, Clock: p.clock})
}

// differs reports whether a process is configured for another quorum than the
// servers.
func (p *Plan) differs(proc int) bool { return p.Strange == Differs && proc == len(p.Procs)-1 }

// vote is what a server has on a key.
type vote struct {
	value string
	end   time.Duration // 0: never
	since time.Duration // when that value came
}

// votes returns what a server has on a key. w.mu is held.
func (w *world) vote(k *key, node int) (v vote) {
	server := w.node(node)
	server.ServerNow()
	value, err := server.Mini.Get(k.watched)
	if err != nil && server.Mini.Exists(k.watched) {
		value = "unreadable"
	}
	if left := server.Mini.TTL(k.watched); left > 0 {
		v.end = w.h.now() + left
	}
	v.value = value
	return v
}

// ballots records which votes changed. w.mu is held.
func (w *world) ballots(k *key, cause string, by int) {
	for n := range k.votes {
		was, now := k.votes[n], w.vote(k, n)
		if now.since = was.since; now.value != was.value {
			now.since = w.h.now()
		}
		if k.votes[n] = now; now.value == was.value {
			continue
		}
		e := Event{Kind: Voted, Proc: by, Op: None, Key: k.number, Node: n + 1, Was: w.h.number(was.value),
			Text: cause}
		if was.end > 0 && was.end <= w.h.now()+time.Millisecond {
			over := e
			over.Proc, over.Text = Server, "expired"
			w.h.add(over)
			e.Was = 0
		}
		if e.Token = w.h.number(now.value); e.Token != e.Was {
			w.h.add(e)
		}
	}
}

// elected returns the token that a majority of the servers has on a key, and
// until when it has. With one server that is the key's value. w.mu is held.
func (w *world) elected(k *key) (value string, until time.Duration) {
	votes := map[string][]time.Duration{}
	for n := range max(w.plan.Nodes, 1) {
		if w.plan.composed() {
			n = theTarget
		}
		v := w.vote(k, n)
		if v.value == "" {
			continue
		}
		if votes[v.value] = append(votes[v.value], v.end); len(votes[v.value]) == w.plan.Nodes/2+1 {
			value = v.value
		}
	}
	ends := votes[value]
	if value == "" || len(ends) == 0 {
		return "", 0
	}
	slices.SortFunc(ends, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return value, ends[w.plan.Nodes/2]
}

// minority reports whether nothing went wrong in the plan but with a few
// servers, which are too few to matter.
func (p *Plan) minority() bool {
	hit := map[int]bool{}
	for _, f := range p.Faults {
		hit[f.Node] = true
	}
	return p.Form == Quorum && p.Strange == "" && !hit[0] && len(hit) <= p.Nodes/2
}

// forgot reports whether a server of a quorum lost votes of a lease. The others
// exclude all the same.
func (p *Plan) forgot(from, to time.Duration) bool {
	return p.Form == Quorum && p.hit(All, from, to, Restart)
}

// rests reports whether a server of a quorum restarted with its keys. Until it
// votes again nobody can delete a token on it, and no client gets its vote.
func (p *Plan) rests(from, to time.Duration) bool {
	return p.Form == Quorum && p.hit(All, from, to, Reboot)
}

// numbered judges that a majority of the servers draws greater numbers than a
// lease's, and each server that has voted for it for a while. A reply that
// never comes makes no vote. w.mu is held.
func (w *world) numbered(h *held) {
	now := w.h.now()
	if h.fence == 0 || w.plan.Form != Quorum || w.plan.hit(h.p.id, now-2*time.Second, now) ||
		w.plan.hit(All, 0, now, Restart) {
		return
	}
	has, lags, heard := 0, false, !w.plan.hit(h.p.id, 0, now, Silence, MuteReplies)
	for n := range w.plan.Nodes {
		text, _ := w.node(n).Mini.Get(names.OfSlot("gsl:fence::", h.key.name))
		counter, _ := strconv.ParseInt(text, 10, 64)
		if counter >= h.fence {
			has++
		} else if v := h.key.votes[n]; word(v.value) == word(h.token) && now-v.since > 500*time.Millisecond {
			lags = heard
		}
	}
	if has <= w.plan.Nodes/2 || lags {
		w.h.add(Event{Kind: Odd, Proc: h.p.id, Op: h.op.ID, Key: h.key.number, Fence: h.fence,
			Text: fmt.Sprintf("%d servers have the number, one that votes lags: %t", has, lags)})
	}
}
