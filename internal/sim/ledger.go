// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// ledger judges what requests do to the keys, and whether what a Client says is
// true: its errors, the results of its releases, and its hooks.
type ledger struct {
	*promises
	on       []int                  // tokens on the keys before an event
	active   map[turn]int           // operations under way
	rested   map[turn]time.Duration // when the last of them ended
	answered map[int]bool           // processes whose Client the server has answered
	refused  map[int]bool           // operations that the server told that the key is held
	vain     map[int]int            // operations → how often they took their key and got no lease
	barred   map[int]time.Duration  // operations that the server refused for good → when
	releases map[int]Event          // operations that give their lease back
	denied   map[int]bool           // tokens that a renewal did not find on their keys
	given    map[int]bool           // tokens whose release left the key to old clients
	hooks    map[leased]int         // leases that began and have not ended, by their hooks
	stirs    map[time.Duration]int  // seconds → events after which processes send something
}

func newLedger(p *promises) *ledger {
	return &ledger{promises: p, refused: map[int]bool{}, vain: map[int]int{},
		on: make([]int, p.p.Keys), active: map[turn]int{},
		rested: map[turn]time.Duration{}, answered: map[int]bool{}, barred: map[int]time.Duration{},
		releases: map[int]Event{}, given: map[int]bool{}, denied: map[int]bool{}, hooks: map[leased]int{},
		stirs: map[time.Duration]int{}}
}

// hear judges one event. It is called after the other judges have heard it.
func (l *ledger) hear(k *chain, e Event) {
	switch e.Kind {
	case Ran:
		l.ran(k, e)
	case Changed:
		l.stirs[e.At.Truncate(time.Second)]++
		l.changed(k, e)
	case Happened:
		l.stirs[e.At.Truncate(time.Second)]++
	case Releasing, Ended:
		token := l.lives[e.Op].token
		e.Stands = k.token == token || k.last[token] != Server
		l.releases[e.Op] = e
	case Told:
		l.told(k, e)
	case Odd:
		if !l.shaken(e.Proc, e.At-2*l.p.Procs[e.Proc].TTL, e.At) {
			l.complain("stats", e, "%s", e.Text)
		}
	case Closed:
		l.closed(e)
	default:
		l.operation(k, e)
	}
	l.gift(k, e)
	l.sentAway(e)
	for id, at := range l.barred {
		if e.At > at+l.p.latest(l.op(id).Proc) {
			l.complain("errors", e, "#%d goes on although the server wants a password since %v", id, at)
			delete(l.barred, id)
		}
	}
}

// operation judges what an operation got.
func (l *ledger) operation(k *chain, e Event) {
	t := turn{e.Proc, e.Key}
	switch e.Kind {
	case Called:
		l.stirs[e.At.Truncate(time.Second)]++
		l.active[t]++
		return
	case Acquired:
		l.answered[e.Proc] = true // by the server, and not by another goroutine
		delete(l.barred, e.Op)
		l.trust(k, e)
		if l.denied[e.Token] {
			l.complain("truth", e, "#%d got T%d, and the server had said that it has no such token", e.Op, e.Token)
		}
		l.overtakes(e)
		l.handed(e)
		return
	case Failed:
		delete(l.barred, e.Op)
		if wrong := cmp.Or(l.unlikely(e), l.untrue(k, e)); wrong != "" {
			l.complain("errors", e, "#%d failed: %s: %s", e.Op, e.Text, wrong)
		}
	case Returned:
		l.returned(k, e)
	default:
		return
	}
	l.active[t]--
	l.rested[t] = e.At
}

// ran judges one request: docs/internals/protocol.md.
func (l *ledger) ran(k *chain, e Event) {
	if _, known := l.owner[e.Token]; !known {
		l.owner[e.Token] = e.Proc
	}
	name, got, _ := strings.Cut(e.Text, "=")
	switch h := l.turns[turn{e.Proc, e.Key}]; {
	case unicode.IsUpper(rune(got[0])): // an error
		if h != nil && slices.Contains(takers, name) && got == "NOAUTH" {
			l.bars(h.op, e)
		}
	case slices.Contains(takers, name):
		l.took(k, h, e, grants(name, got))
	case name == "renew" && !e.Stands:
		if !l.leased[e.Token] {
			l.h.Seen["a gift not confirmed"]++
		}
		l.denied[e.Token] = true
	case name != "renew":
		if e.Stands {
			l.complain("writes", e, "%s for T%d: the key has it still", e.Text, e.Token)
		}
	case e.Was == e.Token && got != "2": // else the lock's own key was lost
		l.lasts(e)
	}
}

// grants reports whether an outcome of a script or command takes a key.
func grants(name, got string) bool {
	return (slices.Contains(takers, name) || taking(name)) && got != "0" && got != "none" &&
		!unicode.IsUpper(rune(got[0]))
}

// bars notes that the server refused an operation for good.
func (l *ledger) bars(op int, e Event) {
	if l.barred[op] == 0 && l.calmBut(e.Proc, e.At, NoAuth) {
		l.barred[op] = e.At
	}
}

// took judges an attempt to take a key, which the server answered.
func (l *ledger) took(k *chain, h *head, e Event, took bool) {
	if h != nil {
		l.refused[h.op] = l.refused[h.op] || !took
	}
	switch {
	case took != e.Stands:
		l.complain("writes", e, "%s for T%d: the key has T%d after it", e.Text, e.Token, k.token)
	case took && e.Was != 0 && e.Was != e.Token:
		l.complain("writes", e, "%s for T%d took the key from T%d", e.Text, e.Token, e.Was)
	case took:
		l.lasts(e)
		l.inVain(h, e)
	}
}

// lasts judges that a key with a token has the TTL that its request asked for.
func (l *ledger) lasts(e Event) {
	end := e.Until - e.At
	if !e.Stands || end < e.Left-2*time.Millisecond || end > e.Left+2*time.Millisecond {
		l.complain("writes", e, "%s for T%d and %v: the key ends after %v", e.Text, e.Token, e.Left, end)
	}
}

// inVain judges that an operation gives up where every grant comes too late.
func (l *ledger) inVain(h *head, e Event) {
	c := l.p.Procs[e.Proc]
	if h == nil || l.p.Old != nil || c.Timeout <= c.TTL { // else an attempt ends before its grant comes
		return
	}
	l.vain[h.op]++
	for _, f := range l.p.Faults {
		if f.hits(e.Proc) && f.Kind != Slow && f.At <= e.At && l.called[h.op] <= f.end()+time.Second {
			l.vain[h.op] = 0
		}
	}
	if l.vain[h.op] == 8 {
		l.complain("waits", e, "#%d has taken its key eight times and got no lease", h.op)
	}
}

// gift judges that what a release gave is taken, or goes on to the next.
func (l *ledger) gift(k *chain, e Event) {
	first := k.first[k.token]
	if k.token == 0 || k.blamed || l.leased[k.token] || e.At-first.At < soon ||
		!slices.Contains(givers, first.Text) {
		return
	}
	who, known := l.owner[k.token]
	if known && !l.gone[who] && k.forsaken[who] == 0 && l.calm(who, first.At, e.At) {
		l.complain("gifts", e, "T%d was given at %v, and nobody took it", k.token, first.At)
		k.blamed = true
	}
}

// calmBut reports whether no fault but those of a kind is on for a process.
func (l *ledger) calmBut(proc int, at time.Duration, kind FaultKind) bool {
	for f := range l.p.faults(proc) {
		if f.Kind != kind && f.At <= at+time.Second && at <= f.end()+time.Second {
			return false
		}
	}
	return true
}

// changed judges that only its own process takes a token off a key, and that
// each token has an end.
func (l *ledger) changed(k *chain, e Event) {
	was := l.on[e.Key]
	l.on[e.Key] = e.Token
	delete(l.denied, e.Token)
	if e.Proc == Server || l.p.Form == Bridged {
		return
	}
	if by, known := l.owner[was]; known && was != Leftover && was != e.Token && by != e.Proc {
		l.complain("writes", e, "p%d took T%d of p%d off the key by %s", e.Proc, was, by, e.Text)
	}
	s := l.leases[leased{e.Proc, was}]
	if e.Token == Leftover && was > 0 && (s == nil || s.lost) {
		l.complain("writes", e, "T%d left the key to others, and its holder did not give it back", was)
	}
	if e.Token == Leftover {
		l.given[was] = true
	}
	if e.Token != 0 && e.Until == 0 {
		l.complain("writes", e, "T%d stands without an end", e.Token)
	}
}

// trust judges that a lease is trusted for no longer than the server keeps its
// key, less the margin. Clocks drift by less than a thousandth.
func (l *ledger) trust(k *chain, e Event) {
	c, since := l.p.Procs[e.Proc], k.written[e.Token]
	if e.Left == 0 || e.Token != k.token || k.excused[e.Token] != "" || l.shaken(e.Proc, since, e.At) ||
		l.p.hit(All, since-c.TTL, e.At, ServerStep) || l.p.forgot(k.first[e.Token].At, e.At) {
		return
	}
	if over := e.At + e.Left + c.Margin - k.until; over > c.TTL/1000+2*time.Millisecond {
		l.complain("trust", e, "T%d is trusted for %v, and the server keeps it for %v; the margin is %v",
			e.Token, e.Left, k.until-e.At, c.Margin)
	}
}

// overtakes judges that an operation got its lease within its wait, and in the
// order of the operations of its process.
func (l *ledger) overtakes(e Event) {
	o, c, began := l.op(e.Op), l.p.Procs[e.Proc], l.called[e.Op]
	for id := range l.keys[e.Key].waiting {
		first := l.op(id)
		came := l.called[id]
		if first.Proc == o.Proc && first.Kind != Try && came < began && l.lives[id] == nil && c.Wait >= 0 &&
			!l.p.fickle(first) && !l.gone[e.Proc] && !l.shaken(e.Proc, came, e.At) {
			l.complain("order", e, "#%d was overtaken by #%d of its process", id, e.Op)
		}
	}
	most := l.wait(o)
	if most > 0 && e.At > began+most+late && l.p.Old == nil && !l.shaken(e.Proc, began, e.At) {
		l.complain("waits", e, "#%d got its lease after %v, and its wait was over after %v", e.Op, e.At-began,
			most)
	}
}

// handed judges how a process hands a key over inside: as
// lock.Config.LocalHandOvers says.
func (l *ledger) handed(e Event) {
	c := l.p.Procs[e.Proc]
	var turns []time.Duration
	for _, other := range l.lives {
		if other.token == e.Token {
			turns = append(turns, other.at)
		}
	}
	slices.Sort(turns)
	n := len(turns) - 1
	switch {
	case n == 0:
	case n > cmp.Or(c.HandOvers, 64) || c.RenewEvery < 0 || c.Politeness > 0 || l.p.Form == Beside:
		l.complain("order", e, "T%d was handed over %d times in the process", e.Token, n)
	case l.shaken(e.Proc, turns[0], e.At):
	case l.p.Form == Bridged: // its phase may shorten a term
	case e.Left > 0 && e.Left < (c.TTL-c.Margin)/2-c.TTL/500:
		l.complain("order", e, "T%d was handed over in the process with %v left", e.Token, e.Left)
	case e.At-turns[1] > late+c.TTL/500:
		l.complain("order", e, "T%d is handed over in the process since %v", e.Token, turns[1])
	}
}

// unlikely says why an operation cannot have failed with an error of this kind.
func (l *ledger) unlikely(e Event) string {
	o, wrong := l.op(e.Op), false
	switch e.Text {
	case "held":
		wrong = !l.once(o)
	case "wait ended, held", "wait ended, trouble":
		wrong = l.once(o) || l.p.Procs[e.Proc].Wait == 0
	case "cancelled":
		wrong = !l.p.fickle(o) && (o.Cancel == 0 || e.At < l.called[e.Op]+o.Cancel)
	case "client closed":
		wrong = !l.closing(e)
	case "lost", "released":
		wrong = true
	}
	if wrong {
		return "no such error may be"
	}
	return ""
}

// untrue says why the error of an operation that got no lease is wrong.
func (l *ledger) untrue(k *chain, e Event) string {
	c, began := l.p.Procs[e.Proc], l.called[e.Op]
	ended := strings.HasPrefix(e.Text, "wait ended")
	switch {
	case e.Text == "held" && l.free(k, e):
		return "nobody held the key since its beginning"
	case ended && l.hasTaken(k, e, began):
		return "its last attempt had taken the key"
	case e.Text == "wait ended, held" && l.leftTo(k, e, began):
		return "the key is left to others, and free after that"
	case e.Text == "wait ended, trouble" && l.refused[e.Op] && l.silentAt(e.Proc, e.At) &&
		!l.p.parted(e.Proc, e.At):
		if l.calm(e.Proc, began-2*time.Second, began+c.Wait-late) {
			return "the server had answered that the key is held"
		}
	case e.Text == "trouble" && l.impatient(e, began):
		return "the server has answered before, and the trouble passes"
	}
	return ""
}

// leftTo reports whether the last attempt of an operation met a key that is
// left to others.
func (l *ledger) leftTo(k *chain, e Event, began time.Duration) bool {
	took := l.p.latest(e.Proc)
	if l.p.Form == Bridged {
		return false // in its first phase an old client may have entered meanwhile
	}
	over := began + l.p.Procs[e.Proc].Wait
	return k.token == Leftover && k.since < over && e.At-k.since > took && e.At < over+took &&
		l.calm(e.Proc, began, e.At)
}

// impatient reports whether an operation should have waited trouble out.
func (l *ledger) impatient(e Event, began time.Duration) bool {
	return l.answered[e.Proc] && !l.once(l.op(e.Op)) && !l.closing(e) &&
		!l.p.hit(e.Proc, began, e.At, NoAuth)
}

// hasTaken reports whether an operation's own attempt has the key, and nothing
// kept the answer from it.
func (l *ledger) hasTaken(k *chain, e Event, began time.Duration) bool {
	first, known := k.first[k.token]
	switch {
	case l.p.composed():
		return false // the old clients' key is taken after the target
	case l.robbedOf(k.token):
		return false // it took the key over, and an old client came between until it settled
	}
	return known && first.Proc == e.Proc && first.At >= began && !l.leased[k.token] &&
		slices.Contains(takers, first.Text) && l.calm(e.Proc, first.At-time.Second, e.At)
}

// silentAt reports whether no other fault hits a process than one by which no
// answer comes.
func (l *ledger) silentAt(proc int, at time.Duration) bool {
	if l.p.Old.has(unheard) && proc == 0 {
		return false // what it hears is trouble
	}
	n := 0
	for _, f := range l.p.Faults {
		if f.hits(proc) && f.is(Hold, HoldRequest, HoldReply, Silence, MuteReplies) &&
			f.At <= at && at-late <= f.end()+late {
			n++
		}
	}
	return n == l.p.hits(proc, at-2*late, at)
}

// closing reports whether a process may have begun to close its Client.
func (l *ledger) closing(e Event) bool {
	return e.At >= l.p.quiet() || l.p.closes(e.Proc, e.At)
}

// free reports whether nobody held a key while an operation was under way. In
// the fair form a queue of waiters counts as a holder. So do votes on a
// minority of servers, which faults let an attempt keep for long.
func (l *ledger) free(k *chain, e Event) bool {
	t, began := turn{e.Proc, e.Key}, l.called[e.Op]
	nobodys := l.p.Old == nil && (k.token == 0 || k.token == Leftover)
	if l.p.Form == Quorum && len(l.p.Faults) > 0 {
		return false
	}
	return l.p.Form != Fair && l.p.Form != FairFence && nobodys && k.since < began && l.active[t] < 2 &&
		l.rested[t] < began && !(k.token == Leftover && l.closing(e)) // Close ends the wait for a left key
}

// returned judges whether the result of a release is true.
func (l *ledger) returned(k *chain, e Event) {
	r, known := l.releases[e.Op]
	s := l.lives[e.Op]
	if !known || s == nil || l.gone[e.Proc] || l.shaken(e.Proc, s.at, e.At) {
		return
	}
	wrong, own := "", l.own(k, s, e)
	switch e.Text {
	case "ok":
		wrong = l.notDone(k, s, r, e)
	case "lost":
		if (own || l.given[s.token]) && r.Kind == Releasing {
			wrong = "nobody but its process took its token off the key"
		}
	case "trouble":
		wrong = l.quietly(e.Proc, r.At, e.At)
	}
	most := 2 * time.Second
	if l.p.Procs[e.Proc].Timeout <= most {
		most *= 2 // the store bounds it, and connects anew: backend.Advisor
	}
	if e.At-r.At > most+late {
		wrong = "it took longer than ReleaseWait"
	}
	if wrong != "" {
		l.complain("returns", e, "the release of #%d returned %s after %v: %s", e.Op, e.Text, e.At-r.At,
			wrong)
	}
}

// own reports whether nobody but its process can have taken a lease's token off
// the key.
func (l *ledger) own(k *chain, s *life, e Event) bool {
	if l.p.Form == Quorum && e.At-l.releases[e.Op].At > l.p.Procs[e.Proc].TTL {
		return false // some votes may have ended meanwhile
	}
	return k.last[s.token] == e.Proc && k.excused[s.token] == "" && !l.p.composed() && !l.robbedOf(s.token) &&
		!l.p.forgot(k.first[s.token].At, e.At) && !l.p.rests(k.first[s.token].At, e.At)
}

// quietly says that there is no trouble, if there was none.
func (l *ledger) quietly(proc int, from, to time.Duration) string {
	if l.calm(proc, from-l.p.Procs[proc].TTL, to) {
		return "there is no trouble"
	}
	return ""
}

// notDone says why a release cannot have succeeded.
func (l *ledger) notDone(k *chain, s *life, r, e Event) string {
	switch {
	case r.Kind == Ended && s.op.Kind != Do:
		return "the lease had ended before"
	case l.tooLong(s, r):
		return "it was held for longer than LongestHold allows"
	case e.At == r.At: // handed over in the process
	case !r.Stands && l.p.Form != Quorum && !l.p.composed() && !l.p.hit(All, s.at, e.At, FailOver):
		return "the server had ended its key before"
	case k.token == s.token && !l.handedOn(s) && !l.forgot(r.At, e.At) &&
		!l.p.rests(k.first[s.token].At, e.At):
		return "the key has its token still"
	}
	return ""
}

// tooLong reports whether a lease that nobody renewed by hand was held for
// longer than LongestHold allows.
func (l *ledger) tooLong(s *life, r Event) bool {
	c := l.p.Procs[r.Proc]
	byHand := s.op.Kind == ByHand || s.op.Kind == Hasty
	return c.Longest > 0 && r.At-s.at > c.Longest+c.TTL && !byHand
}

// handedOn reports whether a later lease has the token of s.
func (l *ledger) handedOn(s *life) bool {
	for _, other := range l.lives {
		if other != s && other.token == s.token && other.at >= s.at {
			return true
		}
	}
	return false
}

// forgot reports whether the server may have gone back to a past of it.
func (l *ledger) forgot(from, to time.Duration) bool {
	return l.p.hit(All, from-time.Second, to, FailOver, Restart, Flush)
}

// told judges that each lease that began has one end.
func (l *ledger) told(k *chain, e Event) {
	who := leased{e.Proc, e.Token}
	switch word, _, _ := strings.Cut(e.Text, ":"); word {
	case "acquired":
		l.hooks[who]++
		l.trust(k, e)
	case "renewed":
		l.trust(k, e)
	case "released", "lost":
		if l.hooks[who]--; l.hooks[who] < 0 {
			l.complain("hooks", e, "%s was called for a lease that has ended", word)
		}
	}
}

// closed judges that Close waits for the holders of lost leases.
func (l *ledger) closed(e Event) {
	byHand := slices.ContainsFunc(l.p.Ops, func(o Op) bool { return o.Kind == Close && o.Proc == e.Proc })
	if !byHand && e.Text != "ok" {
		l.complain("close", e, "Close returned %s, and all operations were over", e.Text)
	}
	for id, s := range l.lives {
		if s.op.Proc != e.Proc || s.over || e.Text != "ok" || l.shaken(e.Proc, s.at, e.At) {
			continue
		}
		if k, c := l.keys[s.op.Key], l.p.Procs[e.Proc]; e.At < k.written[s.token]+c.TTL-c.TTL/500 {
			l.complain("close", e, "Close has ended, and #%d has not released its lease", id)
		}
	}
}

// most is how many messages and dials a process may need in a second: its
// waiters poll or look at the keys, it renews, and each event stirs it.
func (l *ledger) most(s spell) int {
	every := cmp.Or(l.p.Procs[s.proc].RetryEvery, 100*time.Millisecond)
	if l.p.Old != nil && l.p.Old.Dialect.Poll > 0 {
		every = min(every, l.p.Old.Dialect.Poll)
	}
	polls := l.p.Keys * int(time.Second*4/3/every)
	most := 20 + 2*polls + 4*(l.stirs[s.from]+l.stirs[s.from-time.Second])
	for _, o := range l.p.Ops {
		if o.Kind == Hasty && o.Proc == s.proc {
			most += 2 * int(time.Second*30/l.p.Procs[s.proc].TTL) // hasten
		}
	}
	if !l.calm(s.proc, s.from-l.p.Procs[s.proc].TTL, s.from+time.Second) {
		most = 2*most + 60 // what has no answer is undone for a TTL, and many attempts may be
	}
	return most
}

// sentAway judges that Close ends the waiting of all goroutines at once, but of
// those that talk to the server.
func (l *ledger) sentAway(e Event) {
	for _, o := range l.p.Ops {
		passed := e.At - o.At
		soon := passed > time.Millisecond && passed < time.Second
		if o.Kind != Close || !soon || l.shaken(o.Proc, o.At, e.At) {
			continue
		}
		for key, k := range l.keys {
			h := l.turns[turn{o.Proc, key}]
			for id := range k.waiting {
				behind := h != nil && h.since < o.At && h.op != id
				if behind && l.op(id).Proc == o.Proc && l.called[id] < o.At {
					l.complain("close", e, "#%d waits in its process, which closed its Client at %v", id, o.At)
					delete(k.waiting, id)
				}
			}
		}
	}
}

// end judges what is left when all is over.
func (l *ledger) end() {
	for s, n := range l.h.Sent {
		if most := l.most(s); n > most && l.p.Procs[s.proc].Kind == "" && l.p.Form != Bridged &&
			l.p.Form != Quorum {
			l.complain("messages", Event{At: s.from}, "p%d sent %d messages within a second", s.proc, n)
		}
	}
	for who, n := range l.hooks {
		if n > 0 && !l.p.ends() {
			l.complain("hooks", Event{At: l.h.Events[len(l.h.Events)-1].At},
				"T%d of p%d began, and neither Released nor Lost was called", who.token, who.proc)
		}
	}
}
