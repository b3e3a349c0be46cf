// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// promises are the judges of what the documentation says about waiting, hooks,
// renewals and Close. They excuse a process that a fault hits, since most of
// these promises hold for a process that runs and reaches its server.
type promises struct {
	*bench
	called map[int]time.Duration // when an operation began
	turns  map[turn]*head        // who talks to the server
	leases map[leased]*said      // what the hooks said of each lease
	urgent map[int]time.Duration // operations whose gift must be renewed at once, and since when
}

// turn is a key in a process.
type turn struct{ proc, key int }

// head is the operation of a process that waits for a key and has the turn.
type head struct {
	op    int
	since time.Duration
}

// leased is a token in a process. Leases that a process hands over inside have
// one token.
type leased struct{ proc, token int }

// said is what hooks said of the lease that a token is now.
type said struct {
	began      time.Duration // Acquired or Renewed was called last
	endangered bool
	lost       bool
	renewals   int  // missing votes of a quorum may be taken again after two of them
	whole      bool // no fault kept it from having all votes from the start
}

func newPromises(b *bench) *promises {
	return &promises{bench: b, called: map[int]time.Duration{}, turns: map[turn]*head{},
		leases: map[leased]*said{}, urgent: map[int]time.Duration{}}
}

// latest is longer than a command takes without a fault. That is six messages
// if the connection is proved first and the script must be sent whole, and one
// message takes up to 22 times the least latency.
func (p *Plan) latest(proc int) time.Duration { return 6 * 22 * p.Procs[proc].Near }

// calm reports whether no fault has hit a process or the server since an
// instant.
func (p *promises) calm(proc int, from, to time.Duration) bool {
	for f := range p.p.faults(proc) {
		if f.At <= to && (f.lasts() || from <= f.end()+lateTold) {
			return false
		}
	}
	return true
}

// rivals reports whether another process waits for a key. The two may have
// split the votes, and then each server counts.
func (p *promises) rivals(k *chain, proc int) bool {
	for op := range k.waiting {
		if p.op(op).Proc != proc {
			return true
		}
	}
	for by, n := range k.forsaken {
		if by != proc && n > 0 {
			return true
		}
	}
	return false
}

// hear judges one event. It is called after the bench has heard it.
func (p *promises) hear(k *chain, e Event) {
	switch e.Kind {
	case Called:
		p.called[e.Op] = e.At
	case Failed:
		p.failed(e)
		if p.p.minority() && strings.Contains(e.Text, "trouble") && !p.rivals(k, e.Proc) {
			p.complain("waits", e, "#%d failed because of a minority of the servers: %s", e.Op, e.Text)
		}
	case Acquired:
		p.order(k, e)
		p.given(k, e)
	case Changed:
		if e.Text == "renew" {
			for id, l := range p.lives {
				if l.token == e.Token {
					delete(p.urgent, id)
				}
			}
		}
	case Told:
		p.told(e)
	case Ended, Releasing:
		delete(p.urgent, e.Op)
	case Closed:
		p.closed(e)
	case Died:
		maps.DeleteFunc(p.turns, func(t turn, _ *head) bool { return t.proc == e.Proc })
	}
	p.renewals(k, e)
	p.idle(k, e)
	p.heads(e)
}

// late is how long after its wait an Acquire may end.
const late = 100 * time.Millisecond

// failed judges when a wait ends, and whether trouble that passes was waited
// out: see lock.Client.Acquire.
func (p *promises) failed(e Event) {
	o, c, began := p.op(e.Op), p.p.Procs[e.Proc], p.called[e.Op]
	if p.shaken(e.Proc, began, e.At) || p.gone[e.Proc] {
		return
	}
	passed, most := e.At-began, p.wait(o)
	if p.p.Old != nil && most > 0 { // an attempt that has taken the key settles: legacy.Hardened
		most += dialect.Bound(p.p.Old.Claims.Gap) + late
	}
	if p.p.forsakes(o) && !p.calm(e.Proc, began, e.At) { // what it was granted is given back first
		most += 2*time.Second + late
	}
	switch {
	case most > 0 && passed > most+late:
		p.complain("waits", e, "#%d ended after %v, and its wait was over after %v", e.Op, passed, most)
	case strings.HasPrefix(e.Text, "wait ended") && passed < c.Wait-c.Wait/1000-late:
		p.complain("waits", e, "#%d: %s after %v, and it was to wait %v", e.Op, e.Text, passed, c.Wait)
	case p.once(o) || e.Text != "trouble" || passed > 9*time.Second:
	case !p.p.hit(e.Proc, began, e.At, NoAuth):
		p.complain("waits", e, "#%d gave up after %v because of trouble that passes", e.Op, passed)
	}
}

// once reports whether an operation makes a single attempt.
func (p *promises) once(o Op) bool { return o.Kind == Try || p.p.Procs[o.Proc].Wait < 0 }

// wait returns how long an operation may wait. Zero: there is no bound.
func (p *promises) wait(o Op) (most time.Duration) {
	c := p.p.Procs[o.Proc]
	if c.Wait > 0 && o.Kind != Try {
		most = c.Wait + c.Wait/1000 + late
	}
	if o.Cancel > 0 && (most == 0 || o.Cancel < most) {
		most = o.Cancel
	}
	if most > 0 && p.p.Form == Beside {
		most += 2 * late // the key may be left to others
	}
	if most > 0 && p.p.Form == Hardened {
		most += 2 * time.Second // a client that has taken the key settles first
	}
	return most
}

// far reports whether messages are so slow that each lease begins old.
func (p *promises) far(e Event) bool {
	return slices.ContainsFunc(p.p.Faults, func(f Fault) bool {
		return f.Kind == Slow && f.hits(e.Proc) && f.covers(e.At) && f.Amount > p.p.Procs[e.Proc].TTL/10
	})
}

// told judges the calls of hooks: docs/guide/watching.md.
func (p *promises) told(e Event) {
	who := leased{e.Proc, e.Token}
	s := p.leases[who]
	if s == nil {
		s = &said{began: -1}
		p.leases[who] = s
	}
	if s.lost && e.Text != "acquired" {
		p.complain("hooks", e, "%s was called after Lost", e.Text)
	}
	switch e.Text {
	case "acquired", "renewed":
		s.begins(e, p.calm(e.Proc, e.At-time.Second, e.At+200*time.Millisecond))
	case "endangered":
		if s.endangered {
			p.complain("hooks", e, "Endangered was called twice without a renewal")
		}
		s.endangered = true
		gift := slices.Contains(givers, p.keys[e.Key].by[e.Token])
		if gift && s.began == e.At && !p.far(e) {
			p.complain("hooks", e, "a lease that was given began with a warning")
		}
	case "lost: not renewed in time":
		c := p.p.Procs[e.Proc]
		if !s.endangered && !c.Unwarned && !p.shaken(e.Proc, e.At-c.TTL, e.At) {
			p.complain("hooks", e, "Lost was called without Endangered before")
		}
		p.silent(e)
	}
	s.lost = s.lost || strings.HasPrefix(e.Text, "lost")
	p.outvoted(s, e)
}

// begins notes the beginning of a term, and whether it is calm then.
func (s *said) begins(e Event, calm bool) {
	s.began, s.endangered, s.renewals = e.At, false, s.renewals+1
	if e.Text == "acquired" {
		s.renewals, s.whole = 0, calm
	}
}

// outvoted judges that trouble with a minority of the servers ends no lease.
func (p *promises) outvoted(s *said, e Event) {
	if strings.HasPrefix(e.Text, "lost: held for longer") {
		return // Config.LongestHold
	}
	if s.lost && (s.renewals > 1 || s.whole) && p.p.minority() && !p.p.ends() && e.At < p.p.quiet() {
		p.complain("renewals", e, "a minority of the servers ended a lease")
	}
}

// silent judges that one connection which fell silent ends no lease.
func (p *promises) silent(e Event) {
	if c := p.p.Procs[e.Proc]; p.p.Form.marked() && c.Timeout > c.TTL/4 {
		return // legacy.Config.Timeout: so long it waits for the reply to a renewal
	}
	silences := 0
	if p.p.Old.has(unheard) && e.Proc == 0 || p.p.Strange != "" {
		return
	}
	for f := range p.p.faults(e.Proc) {
		switch {
		case f.At > e.At || f.end() < e.At-2*p.p.Procs[e.Proc].TTL:
		case !f.lasts():
			return
		default:
			silences++
		}
	}
	if silences <= 1 {
		p.complain("renewals", e, "a lease was lost because one connection fell silent")
	}
}

// order judges that no waiter of the fair form is overtaken by one that came
// half a second later.
func (p *promises) order(k *chain, e Event) {
	if p.p.Form != Fair && p.p.Form != FairFence {
		return
	}
	now, mine := e.At, p.turns[turn{e.Proc, e.Key}]
	if mine == nil || mine.op != e.Op || k.first[e.Token].At < mine.since {
		return // handed over inside the process
	}
	for t, h := range p.turns {
		if t.key == e.Key && t.proc != e.Proc && h.since+500*time.Millisecond < mine.since &&
			p.allCalm(h.since-15*time.Second, now) {
			p.complain("order", e, "#%d, which waits since %v, was overtaken by #%d, which waits since %v",
				h.op, h.since, e.Op, mine.since)
		}
	}
}

func (p *promises) allCalm(from, to time.Duration) bool {
	for id := range p.p.Procs {
		if !p.calm(id, from, to) {
			return false
		}
	}
	return true
}

// heads keeps who talks to the server: the operation of a process that has
// waited longest, if the process has no lease of the key.
func (p *promises) heads(e Event) {
	switch e.Kind {
	case Called, Acquired, Failed, Returned, Died, Closed, Ended, Releasing:
	default:
		return
	}
	t := turn{e.Proc, e.Key}
	var waiting []int
	for id := range p.keys[e.Key].waiting {
		if o := p.op(id); o.Proc == e.Proc && o.Kind != Try && p.lives[id] == nil {
			waiting = append(waiting, id)
		}
	}
	holds := p.keys[e.Key].forsaken[e.Proc] > 0
	for _, l := range p.lives {
		holds = holds || l.op.Proc == e.Proc && l.op.Key == e.Key && !l.over
	}
	if holds || len(waiting) == 0 || p.gone[e.Proc] {
		delete(p.turns, t)
		return
	}
	first := slices.MinFunc(waiting, func(a, b int) int { return cmp.Compare(p.called[a], p.called[b]) })
	if h := p.turns[t]; h == nil || h.op != first {
		p.turns[t] = &head{first, e.At}
	}
}

// given judges what is left of a lease that a release gave. See
// docs/guide/modern.md, "How a release reaches the next waiter".
func (p *promises) given(k *chain, e Event) {
	c := p.p.Procs[e.Proc]
	if !p.isGift(k, e) || e.Left == 0 || p.shaken(e.Proc, e.At-c.TTL, e.At) {
		return
	}
	span := c.TTL - c.Margin
	switch {
	case e.Left < span/4 && p.slowed(e.Proc, e.At-c.TTL, e.At):
	case e.Left < span/4:
		p.complain("gifts", e, "#%d began with %v of %v", e.Op, e.Left, span)
	case c.RenewEvery < 0 && e.Left < span-p.p.latest(e.Proc) && p.calm(e.Proc, e.At-c.TTL, e.At):
		p.complain("gifts", e, "#%d is not renewed and began with %v of %v", e.Op, e.Left, span)
	case c.RenewEvery >= 0 && e.Left < span*2/3-c.TTL/500:
		p.urgent[e.Op] = e.At
	}
}

// isGift reports whether a release of another process gave the lease.
func (p *promises) isGift(k *chain, e Event) bool {
	for id, l := range p.lives {
		if l.token == e.Token && id != e.Op {
			return false // it was handed over inside the process
		}
	}
	return p.p.Form != Quorum && slices.Contains(givers, k.first[e.Token].Text)
}

// slowed reports whether the confirmation of a gift may have taken long.
func (p *promises) slowed(proc int, from, to time.Duration) bool {
	return slices.ContainsFunc(p.p.Faults, func(f Fault) bool {
		return f.hits(proc) && !f.is(Late, Twice) && f.At <= to && (f.lasts() || from <= f.end())
	})
}

// renewals judges that a lease is renewed in time: lock.Config.RenewEvery.
func (p *promises) renewals(k *chain, e Event) {
	if p.p.Strange != "" {
		return // a server of another quorum ends every renewal
	}
	for id, l := range p.lives {
		c := p.p.Procs[l.op.Proc]
		if p.p.Old.has(unheard) && l.op.Proc == 0 {
			continue
		}
		if l.over || l.lost > 0 || c.RenewEvery < 0 || l.op.Key != e.Key || p.gone[l.op.Proc] {
			continue
		}
		since, every := max(k.written[l.token], 0), c.every()
		if from, ok := p.urgent[id]; ok {
			since, every = from, 0
		}
		if c.Longest > 0 { // the renewal of the lease before it, or its own, may have ended
			if since = max(since, l.at); since+every > l.at+c.Longest-every/5-time.Second {
				continue
			}
		}
		if e.At-since > every+every/500+p.p.latest(l.op.Proc) && p.calm(l.op.Proc, since-c.TTL, e.At) {
			p.complain("renewals", e, "#%d was renewed %v ago, and is to be renewed after %v", id,
				e.At-since, every)
			l.over = true
		}
	}
}

// closed judges that Close ends a tenth of a second after its context.
func (p *promises) closed(e Event) {
	if p.p.Procs[e.Proc].Starts > 0 { // it may have started after its first Close
		return
	}
	first := -1 // a second Close does nothing
	for i, o := range p.p.Ops {
		if o.Kind == Close && o.Proc == e.Proc && (first < 0 || o.At < p.p.Ops[first].At) {
			first = i
		}
	}
	if first < 0 || e.At > p.p.quiet() {
		return
	}
	o := p.p.Ops[first]
	if e.At > o.At+o.Hold+2*late && !p.shaken(e.Proc, o.At, e.At) {
		p.complain("close", e, "Close ended after %v, and its context after %v", e.At-o.At, o.Hold)
	}
}

// idle judges a key that nobody holds while all processes run and reach the
// server. Operations that wait find it soon if it is free. If it is not, its
// token was released, or given to a waiter that has gone. An old client may
// have the key without a token.
func (p *promises) idle(k *chain, e Event) {
	if p.p.Strange != "" || !p.oldGone() {
		return
	}
	now := past{k.token, k.since}
	if e.Kind == Changed {
		if now.since < e.At {
			return // renewed
		}
		now = k.before // which is over
	}
	if k.blamed || e.At-now.since < soon {
		k.blamed = k.blamed && e.Kind != Changed
		return
	}
	frozen, sure := p.frozen(now.since-15*time.Second, e.At)
	switch {
	case !sure:
	case now.token == 0:
		p.free(k, e, now.since, frozen)
	case e.Kind == Changed, len(frozen) > 0:
	case p.leased[k.token] && e.At-k.freed > soon && !p.anybody(k, e.Key) &&
		k.forsaken[p.owner[k.token]] == 0:
		p.complain("returns", e, "T%d was given back at %v, and the key has it still", k.token, k.freed)
		k.blamed = true
	}
}

// oldGone reports whether no old client takes part any more, and nothing is in
// disorder. At a new beginning tombstones are left until that is over.
func (p *promises) oldGone() bool {
	o := p.p.Old
	return o == nil || o.Begins >= migrate.Modern && o.Disorder == 0 && p.old.phase != migrate.Observe
}

// free judges a key that has been free since an instant.
func (p *promises) free(k *chain, e Event, from time.Duration, frozen []int) {
	since, most := p.able(k, frozen), soon
	// All who wait know when a key ends that was not given, and the dead hear
	// no call. Those that cannot be called count for a while.
	awaited := k.last[k.late] == Server && !slices.Contains(givers, k.first[k.late].Text)
	for id := range p.gone {
		awaited = awaited && !p.p.Procs[id].Deaf
	}
	if n := time.Duration(len(frozen) + len(p.gone)); n > 0 && !(awaited && len(frozen) == 0) {
		most += n*later + seldom // nobody who is called may be left
	}
	if p.p.Form == Bridged {
		most += p.probe()
	}
	if since >= 0 && e.At-max(since, from) > most {
		p.complain("wakes", e, "k%d was free from %v on, and %d waited", e.Key, from, len(k.waiting))
		k.blamed = true
	}
}

// probe is how long a member may try its scripts out before its first attempt,
// with some hundred and fifty messages one after the other.
func (p *promises) probe() (most time.Duration) {
	for _, c := range p.p.Procs {
		most = max(most, 150*2*2*c.Near)
	}
	return most
}

// frozen returns the processes that stood still in a span of time. It is not
// sure if another fault hit any process then.
func (p *promises) frozen(from, to time.Duration) (all []int, sure bool) {
	for id := range p.p.Procs {
		switch {
		case p.calm(id, from, to):
		case p.p.hit(id, from, to, Freeze) && p.p.hits(id, from, to) == 1:
			all = append(all, id)
		default:
			return nil, false
		}
	}
	return all, true
}

// able returns since when an operation waits whose process never stood still;
// -1: none does.
func (p *promises) able(k *chain, frozen []int) (since time.Duration) {
	since = -1
	for id := range k.waiting {
		o := p.op(id)
		if o.Kind != Try && !slices.Contains(frozen, o.Proc) && !p.gone[o.Proc] && k.forsaken[o.Proc] == 0 &&
			(since < 0 || p.called[id] < since) {
			since = p.called[id]
		}
	}
	return since
}

// soon is how long a free key is left alone by a waiter that cannot be called,
// about a second, and a quarter more.
const soon = 1500 * time.Millisecond

// later is how long a free key is left to a waiter that stands still, until
// the next one may have it, and a quarter more.
const later = 2500 * time.Millisecond

// seldom is how long a waiter that is not first leaves the key alone.
const seldom = 5 * time.Second

// anybody reports whether a lease of the key is in use, or its process has died
// with it.
func (p *promises) anybody(k *chain, n int) bool {
	for _, l := range p.lives {
		if l.op.Key == n && (!l.over || p.gone[l.op.Proc] && l.token == k.token) {
			return true
		}
	}
	return false
}
