// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Complaint is a promise that a history breaks.
type Complaint struct {
	Judge string // name of the judge
	At    time.Duration
	Text  string
}

func (c Complaint) String() string {
	return fmt.Sprintf("%s at %.9fs: %s", c.Judge, c.At.Seconds(), c.Text)
}

// bench is the room of all judges: what they know at one event of a history.
type bench struct {
	h          *History
	p          *Plan
	lives      map[int]*life // leases, by their operations
	keys       []*chain
	leased     map[int]bool // tokens that some operation got
	gone       map[int]bool // processes that have ended
	owner      map[int]int  // tokens → the processes that use them
	complaints []Complaint
	old        *besides
	halfway    bool // an init got no answer, and a step that it began waits for the next one
}

// life is a lease as the judges know it.
type life struct {
	op       Op
	token    int
	at       time.Duration // when it was acquired
	over     bool          // the holder has given it up
	overAt   time.Duration // … and when
	lost     time.Duration // when the holder learned of its loss; 0: not so
	trusted  time.Duration // when it was last seen to be trusted
	lookedAt time.Duration // when it was last looked at
}

// chain is a key's past.
type chain struct {
	token   int                   // on the key now
	until   time.Duration         // when the server ends the key
	excused map[int]string        // tokens that the server broke a rule for → which
	voided  map[int]time.Duration // … and when
	written map[int]time.Duration // when a token was last written or renewed
	by      map[int]string        // … and by which request
	first   map[int]Event         // its first writing
	last    map[int]int           // who took a token off the key
	fence   int64                 // greatest fencing number of a lease
	rewound bool                  // the server forgot numbers since, or its clock was set back
	waiting map[int]bool          // operations that wait

	// Processes → operations whose grants nobody receives, and when the last of
	// them was over.
	forsaken map[int]int
	forsook  map[int]time.Duration
	idle     time.Duration // since when some wait and none holds; -1: not so
	since    time.Duration // when its token changed last
	before   past          // what it had until then
	late     int           // the last token that it had
	freed    time.Duration // when its last lease was given back
	blamed   bool          // a judge has complained about that
}

// past is what a key had, and since when.
type past struct {
	token int
	since time.Duration
}

// Judge returns what the history breaks, in the order of events.
func Judge(h *History) []Complaint {
	b := &bench{h: h, p: h.Plan, lives: map[int]*life{}, leased: map[int]bool{}, gone: map[int]bool{},
		owner: map[int]int{}}
	for _, e := range h.Events {
		if e.Kind == Acquired {
			b.leased[e.Token] = true
		}
	}
	for range h.Plan.Keys {
		b.keys = append(b.keys, &chain{excused: map[int]string{}, voided: map[int]time.Duration{},
			written: map[int]time.Duration{}, by: map[int]string{}, first: map[int]Event{},
			last: map[int]int{}, waiting: map[int]bool{}, idle: -1, forsaken: map[int]int{},
			forsook: map[int]time.Duration{}})
	}
	more := newPromises(b)
	books, ballots := newLedger(more), newVotes(more)
	for _, e := range h.Events {
		if e.Kind != Ran {
			b.hear(e)
			more.hear(b.keys[e.Key], e)
			for n, k := range b.keys {
				b.liveness(n, k, e.At)
			}
		}
		books.hear(b.keys[e.Key], e)
		ballots.hear(e)
	}
	books.end()
	return b.complaints
}

func (b *bench) complain(judge string, e Event, text string, args ...any) {
	b.complaints = append(b.complaints, Complaint{judge, e.At, fmt.Sprintf(text, args...)})
}

func (b *bench) hear(e Event) {
	k := b.keys[e.Key]
	b.beside(e)
	switch e.Kind {
	case Called:
		b.called(k, e)
	case Acquired:
		delete(k.waiting, e.Op)
		b.acquired(k, e)
	case Looked:
		b.looked(k, e)
	case Changed:
		b.changed(k, e)
	case Failed:
		b.gaveUp(k, e)
		b.failed(e)
	case Noticed, Ended, Releasing:
		b.over(k, e)
	case Renewed, Returned:
		b.returned(e)
	case Died:
		b.died(e)
	case Happened:
		b.happened(e)
	case Stuck:
		b.stuck(e)
	case Left:
		b.complain("leftovers", e, "%s", e.Text)
	case Closed:
		b.closed(e)
	case Stepped:
		b.halfway = b.halfway || e.Text == "init: no answer"
	}
}

func (b *bench) called(k *chain, e Event) {
	if b.p.forsakes(b.op(e.Op)) {
		k.forsaken[e.Proc]++
		return
	}
	k.waiting[e.Op] = true
}

func (b *bench) gaveUp(k *chain, e Event) {
	delete(k.waiting, e.Op)
	if b.p.forsakes(b.op(e.Op)) {
		k.forsaken[e.Proc]--
		k.forsook[e.Proc] = e.At
	}
}

func (b *bench) closed(e Event) {
	b.gone[e.Proc] = true
	if e.Text != "ok" && !b.hurt(e.Proc) {
		b.complain("errors", e, "Close returned %s", e.Text)
	}
}

func (b *bench) stuck(e Event) {
	if !b.p.Old.unmended() {
		b.complain("liveness", e, "#%d of p%d never ended", e.Op, e.Proc)
	}
}

// hurt reports whether anything in the plan may spoil an operation's end. A
// process that does not renew loses what it holds for too long.
func (b *bench) hurt(proc int) bool {
	c := b.p.Procs[proc]
	return b.p.Old != nil || b.p.Strange != "" || len(b.p.Faults) > 0 || b.p.ends() ||
		c.RenewEvery < 0 || c.Longest > 0
}

// ends reports whether a process of the plan ends before the others.
func (p *Plan) ends() bool {
	for _, o := range p.Ops {
		if o.Kind == Kill || o.Kind == Close {
			return true
		}
	}
	return false
}

func (b *bench) acquired(k *chain, e Event) {
	l := &life{op: b.op(e.Op), token: e.Token, at: e.At, trusted: -1, lookedAt: -1}
	b.lives[e.Op] = l
	b.looked(k, e)
	if !e.Trusted && !b.shaken(e.Proc, e.At-b.p.Procs[e.Proc].TTL, e.At) {
		b.complain("trust", e, "#%d got a lease that is over", e.Op)
	}
	switch {
	case l.op.Kind == Do:
	case e.Fence == 0 && b.p.Fenced:
		b.complain("fences", e, "#%d has no fencing number", e.Op)
	case e.Fence != 0 && e.Fence <= k.fence && !k.rewound && b.excuse(k, l, e.At) == "":
		b.complain("fences", e, "#%d has the number %d, after %d", e.Op, e.Fence, k.fence)
	}
	k.fence, k.rewound = max(k.fence, e.Fence), k.rewound && e.Fence <= k.fence
}

func (b *bench) op(id int) Op {
	for _, o := range b.p.Ops {
		if o.ID == id {
			return o
		}
	}
	panic(fmt.Sprintf("sim: no operation %d", id))
}

// looked judges what a lease says of itself.
func (b *bench) looked(k *chain, e Event) {
	l := b.lives[e.Op]
	l.lookedAt = e.At
	if !e.Trusted {
		b.told(k, l, e)
		return
	}
	l.trusted = e.At
	excuse := b.excuse(k, l, e.At)
	if !e.Stands && excuse == "" && !b.p.forgot(k.first[l.token].At, e.At) {
		b.complain("truth", e, "#%d trusts T%d, and the key has T%d", e.Op, e.Token, k.token)
	}
	for id, other := range b.lives {
		if id == e.Op || other.over || other.op.Key != e.Key || other.trusted != e.At {
			continue
		}
		if excuse == "" && b.excuse(k, other, e.At) == "" {
			b.complain("exclusion", e, "#%d of p%d and #%d of p%d both trust their leases", e.Op, e.Proc,
				id, other.op.Proc)
		}
	}
}

// told judges that Done is closed when trust is over. It may be late if the
// process or its clock stood still.
func (b *bench) told(k *chain, l *life, e Event) {
	if e.Kind != Looked || e.Done || l.over {
		return
	}
	if b.shaken(l.op.Proc, e.At, e.At) {
		return
	}
	b.complain("told", e, "#%d: trust is over, and its Done is open", e.Op)
}

// lateTold is how late Done may be closed after a clock stepped or stood still.
const lateTold = 250 * time.Millisecond

// shaken reports whether a process was frozen, or its machine suspended or its
// clock stepped, in a span of time.
func (b *bench) shaken(proc int, from, to time.Duration) bool {
	for f := range b.p.faults(proc) {
		if f.is(Freeze, Suspend, Step) && f.At <= to && from <= f.end()+lateTold {
			return true
		}
	}
	return false
}

// excuse returns which rule was broken, and not by getsetlock, so that a lease
// may be trusted without its key. Empty: none.
func (b *bench) excuse(k *chain, l *life, at time.Duration) string {
	if why := k.excused[l.token]; why != "" || l.token == k.token && !b.p.composed() {
		return why
	}
	c := b.p.Procs[l.op.Proc]
	switch ahead, asleep, back := b.clocks(l.op.Proc, k.written[l.token], at); {
	case ahead > c.Margin-c.TTL/1000: // clocks drift by less than a thousandth
		return "the server's clock stepped by more than the margin"
	case asleep && back:
		return "both of the machine's clocks stood still"
	}
	return ""
}

// clocks returns how far the server's clock stepped forward in a span of time,
// and whether a process's machine slept and its clock was set back.
func (b *bench) clocks(proc int, from, to time.Duration) (ahead time.Duration, asleep, back bool) {
	for _, f := range b.p.Faults {
		switch {
		case f.At > to || f.end() < from:
		case f.Kind == ServerStep:
			ahead += max(f.Amount, 0)
		case f.Kind == Suspend && b.p.onMachine(f, proc):
			asleep = true
		case f.Kind == Step && f.Amount < 0 && b.p.onMachine(f, proc):
			back = true
		}
	}
	return ahead, asleep, back
}

func (b *bench) changed(k *chain, e Event) {
	if e.Proc == Server && FaultKind(e.Text).forgets() && k.token != 0 {
		switch {
		case b.p.Form == Quorum: // a server that forgot does not vote
			k.voided[k.token] = e.At
		case e.Token != k.token:
			k.excused[k.token], k.voided[k.token] = "the server forgot it: "+e.Text, e.At
		case e.Until < k.until:
			k.excused[k.token] = "the server forgot a renewal: " + e.Text
		}
	}
	b.orphan(k, e)
	if k.token != e.Token {
		k.last[k.token], k.before, k.since = e.Proc, past{k.token, k.since}, e.At
		k.late = cmp.Or(k.token, k.late)
	}
	k.token, k.until = e.Token, e.Until
	if e.Token != 0 && e.Proc != Server {
		if _, known := k.first[e.Token]; !known {
			k.first[e.Token] = e
		}
		k.written[e.Token], k.by[e.Token] = e.At, e.Text
		delete(k.excused, e.Token)
		if b.p.Form == Quorum {
			delete(k.voided, e.Token) // it has its majority again
		}
	}
}

// takers are the scripts and commands by which a process takes a key for
// itself.
var takers = []string{"SET", "acquire", "take"}

// writer returns what put the token on a key, and for which process: it took
// the key itself, or was given it.
func (b *bench) writer(k *chain) (was Event, known bool) {
	was, known = k.first[k.token]
	if slices.Contains(givers, was.Text) {
		was.Proc, known = b.owner[k.token]
		return was, known
	}
	return was, known && slices.Contains(takers, was.Text)
}

// orphan judges that a process gives back at once what it may have taken and
// nobody got, and does not leave it to the TTL.
func (b *bench) orphan(k *chain, e Event) {
	was, known := b.writer(k)
	if b.p.composed() {
		return // a composed attempt asks two servers, and undoes more slowly
	}
	restored := b.p.hit(All, was.At, e.At, FailOver) // with a key that had been given back
	if !known || e.Token == k.token || b.gone[was.Proc] || restored {
		return
	}
	ttl := b.p.Procs[was.Proc].TTL
	if b.held(k.token) || b.p.Procs[was.Proc].Timeout > ttl/4 || k.forsaken[was.Proc] > 0 {
		return // or it waits longer for each answer
	}
	most := ttl * 5 / 6 // pauses of a third, and two time-outs
	switch calm := was.At - ttl; {
	case b.leased[k.token]:
		was.At, most = k.freed, ttl*2/3
	case b.p.Old == nil && b.since(was.Proc, calm, e.At) == calm:
		most = time.Second
	}
	if from, sure := b.undisturbed(was, e.At, ttl/2); sure && e.At-from > most {
		b.complain("leftovers", e, "T%d, which no operation has, was on the key for %v", k.token, e.At-was.At)
	}
}

// held reports whether an operation has a lease with a token.
func (b *bench) held(token int) bool {
	for _, l := range b.lives {
		if l.token == token && !l.over {
			return true
		}
	}
	return false
}

// undisturbed returns since when no fault has kept a process from undoing what
// it wrote in an event. It is not sure if that request may have been under way
// for longer than it is undone.
func (b *bench) undisturbed(was Event, now, long time.Duration) (from time.Duration, sure bool) {
	from = was.At
	gift := slices.Contains(givers, was.Text) // its call comes by a connection that nothing else uses
	for f := range b.p.faults(was.Proc) {
		if f.At > now {
			continue
		}
		over := f.end()
		if f.Kind == Slow {
			over += f.Amount
		}
		delays := over-f.At > long && f.At <= was.At && was.At <= over+time.Second
		if delays || gift && f.lasts() {
			return 0, false
		}
		if !f.is(traps...) {
			from = max(from, over)
		}
	}
	return from, true
}

func (b *bench) happened(e Event) {
	for _, f := range b.p.Faults {
		if f.At != e.At || f.String() != e.Text {
			continue
		}
		if f.Kind.forgets() || f.Kind == ServerStep && f.Amount < 0 {
			for _, k := range b.keys {
				k.rewound = true
			}
		}
	}
}

// over judges that a holder learns at its next renewal that the server forgot
// its lease.
func (b *bench) over(k *chain, e Event) {
	l := b.lives[e.Op]
	if e.Kind == Noticed {
		l.lost = e.At
		return
	}
	l.over, l.overAt, k.freed = true, e.At, e.At
	at, voided := k.voided[l.token]
	if !voided || at < l.at {
		return
	}
	b.learned(l, at, e, "the server forgot the lease")
}

// learned judges that the holder of a lease that was gone at an instant has
// learned of that by its next renewal.
func (b *bench) learned(l *life, at time.Duration, e Event, how string) {
	c := b.p.Procs[l.op.Proc]
	every := c.every()
	switch {
	case every < 0:
		return // it never asks the server
	case c.Longest > 0 && at+every > l.at+c.Longest:
		return // its renewal has ended
	}
	told, from := cmp.Or(l.lost, e.At), at
	if b.p.Form == Quorum {
		from = b.since(l.op.Proc, at, told)
	} else if b.disturbed(at, told) {
		return
	}
	if told > from+every+c.TTL/4 {
		b.complain("told", e, "#%d: %s at %v, and its holder was not told", e.Op, how, at)
	}
}

// since returns the end of the last fault that hits a process by an instant; if
// there is none, from. A connection that fell silent is left within 15 s.
func (b *bench) since(proc int, from, then time.Duration) time.Duration {
	for f := range b.p.faults(proc) {
		switch {
		case f.At > then:
		case f.lasts():
			from = max(from, f.At+15*time.Second)
		default:
			from = max(from, f.end())
		}
	}
	return from
}

// disturbed reports whether a fault other than one that is over at once is on
// in a span of time.
func (b *bench) disturbed(from, to time.Duration) bool {
	return slices.ContainsFunc(b.p.Faults, func(f Fault) bool {
		return f.At <= to && from <= f.end() && f.Kind != Flush
	})
}

func (b *bench) died(e Event) {
	b.gone[e.Proc] = true
	for _, l := range b.lives {
		l.over = l.over || l.op.Proc == e.Proc
	}
	for _, k := range b.keys {
		for id := range k.waiting {
			if b.op(id).Proc == e.Proc {
				delete(k.waiting, id)
			}
		}
	}
}

// usual are the errors of a world without faults.
var usual = map[string]bool{"held": true, "cancelled": true, "wait ended, held": true}

func (b *bench) failed(e Event) {
	wrong := strings.HasPrefix(e.Text, "undocumented") || e.Text == "another quorum" && b.p.Strange == ""
	if wrong || !usual[e.Text] && !b.hurt(e.Proc) {
		b.complain("errors", e, "#%d failed: %s", e.Op, e.Text)
	}
}

func (b *bench) returned(e Event) {
	delete(b.keys[e.Key].waiting, e.Op)
	if e.Kind == Renewed && b.p.Form == Quorum {
		return // that too few members answered is documented in words
	}
	if strings.HasPrefix(e.Text, "undocumented") || e.Text != "ok" && !b.hurt(e.Proc) {
		b.complain("errors", e, "#%d: %s returned %s", e.Op, e.Kind, e.Text)
	}
}

// liveness judges that no key stays without a holder while operations wait.
func (b *bench) liveness(n int, k *chain, at time.Duration) {
	held := b.oldHolds(n)
	for _, l := range b.lives {
		held = held || !l.over && l.op.Key == n
	}
	if held || len(k.waiting) == 0 {
		k.idle = -1
		return
	}
	if k.idle < 0 {
		k.idle = max(at, b.p.quiet())
	}
	gap := at - k.idle
	if gap > b.p.gap() && at > b.p.recovers() && !b.p.Old.unmended() && !b.halfway {
		b.complain("liveness", Event{At: at}, "k%d has had no holder for %v, and %d wait", n, gap,
			len(k.waiting))
		k.idle = at
	}
	b.h.Gap = max(b.h.Gap, gap)
}

// gap is how long a key may stay without a holder while operations wait. What a
// dead holder left ends by its TTL. Then a waiter asks after a second at most.
func (p *Plan) gap() time.Duration { return p.longest() + p.oldGap() + 5*time.Second }

// recovers returns until when a waiter may not know that it has lost its place,
// or that all before it are dead. It asks after ten seconds at most, see
// docs/guide/modern.md, "When a message gets lost".
func (p *Plan) recovers() (at time.Duration) {
	for _, f := range p.Faults {
		at = max(at, f.end())
	}
	for _, o := range p.Ops {
		if o.Kind == Kill || o.Kind == Close {
			at = max(at, o.At)
		}
	}
	if at == 0 || p.Form.marked() {
		return 0
	}
	return at + p.longest() + 10*time.Second
}
