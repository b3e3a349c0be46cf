// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// votes judges what the servers of a quorum have, each for itself: the majority
// that a lease has hides what happens to a single vote.
type votes struct {
	*promises
	cast    map[seat]cast
	runs    map[int]time.Duration  // when a server began its present run
	lacks   map[seat]time.Duration // since when a seat has the token that it has, or none
	refused map[int]time.Duration  // processes that a server has told that it is of another quorum → when
}

// seat is a key on a server.
type seat struct{ node, key int }

// cast is a token on a seat, and since when.
type cast struct {
	token int
	at    time.Duration
}

func newVotes(p *promises) *votes {
	return &votes{promises: p, cast: map[seat]cast{}, runs: map[int]time.Duration{},
		refused: map[int]time.Duration{}, lacks: map[seat]time.Duration{}}
}

func (v *votes) hear(e Event) {
	if v.p.Form != Quorum {
		return
	}
	switch e.Kind {
	case Happened:
		v.restarted(e)
	case Failed:
		if _, known := v.refused[e.Proc]; !known && e.Text == "another quorum" {
			v.refused[e.Proc] = e.At
		}
	case Acquired:
		at, refused := v.refused[e.Proc]
		lost := v.p.forgot(0, e.At) // perhaps the record of another quorum, too
		if v.p.differs(e.Proc) || refused && !lost && v.called[e.Op] >= at {
			v.complain("votes", e, "#%d of p%d got a lease, and a server is of another quorum", e.Op, e.Proc)
		}
	case Voted:
		v.voted(e)
	}
	v.kept(e)
	v.missing(e)
}

// restarted notes a server's new run.
func (v *votes) restarted(e Event) {
	for _, f := range v.p.Faults {
		if f.At == e.At && f.String() == e.Text && f.is(Restart, Reboot) {
			v.runs[f.Node] = e.At
		}
	}
}

// rests returns until when a server does not vote. Nothing is watched before
// all of those that are new have answered.
func (v *votes) rests(node int) (began, until time.Duration) {
	began, restarted := v.runs[node]
	switch {
	case v.p.Strange == Fresh:
		for _, f := range v.p.Faults {
			if f.At == 0 && f.Kind == Refuse && f.Proc == All {
				began = max(began, f.end())
			}
		}
		return began, began + freshRest - freshRest/500
	case restarted:
		return began, began + greatestTTL - greatestTTL/500
	}
	return 0, 0
}

// voted judges one change on one server.
func (v *votes) voted(e Event) {
	here := seat{e.Node, e.Key}
	v.lacks[here] = e.At
	if v.cast[here] = (cast{e.Token, e.At}); e.Token == 0 {
		delete(v.cast, here)
	}
	if e.Proc == Server {
		return
	}
	if by, known := v.owner[e.Was]; known && e.Was != 0 && by != e.Proc {
		v.complain("votes", e, "p%d took T%d of p%d off s%d by %s", e.Proc, e.Was, by, e.Node, e.Text)
	}
	if e.Token == 0 {
		return
	}
	if _, known := v.owner[e.Token]; !known {
		v.owner[e.Token] = e.Proc
	}
	if began, until := v.rests(e.Node); e.Was == 0 && e.At < until {
		v.complain("votes", e, "s%d votes for T%d %v after it started", e.Node, e.Token, e.At-began)
	}
}

// kept judges that a vote which no lease needs is given back.
func (v *votes) kept(e Event) {
	for here, c := range v.cast {
		who, k := v.owner[c.token], v.keys[here.key]
		from, needed := max(c.at, k.forsook[who]), k.forsaken[who] > 0
		for _, l := range v.lives {
			if l.token == c.token { // a vote that comes a TTL after the end is looked for no more
				needed = needed || !l.over || c.at-l.overAt > v.p.Procs[who].TTL
				from = max(from, l.overAt)
			}
		}
		if needed || e.At-from < time.Second || v.gone[who] || v.p.closes(who, e.At) {
			continue
		}
		if over := from + v.p.Procs[who].TTL; e.At > over { // although nobody has looked
			v.lacks[here] = over
			delete(v.cast, here)
			continue
		}
		if last, sure := v.away(who, from, e.At); sure && e.At-from > 2*(last-from)+time.Second {
			v.complain("leftovers", e, "T%d, which no lease needs since %v, is on s%d", c.token, from,
				here.node)
			delete(v.cast, here)
		}
	}
}

// missing judges that a lease's votes are taken again where it has none.
func (v *votes) missing(e Event) {
	for id, l := range v.lives {
		c := v.p.Procs[l.op.Proc]
		if l.over || l.lost > 0 || c.RenewEvery < 0 || c.Longest > 0 || v.gone[l.op.Proc] ||
			v.p.Strange != "" {
			continue
		}
		for n := 1; n <= v.p.Nodes; n++ {
			here := seat{n, l.op.Key}
			since := max(l.at, v.lacks[here])
			if began, restarted := v.runs[n]; restarted { // its run is watched once it answers
				for _, f := range v.p.on(n - 1).Faults {
					if f.At <= e.At {
						began = max(began, f.end())
					}
				}
				since = max(since, began+greatestTTL+5*time.Second)
			}
			since = v.since(l.op.Proc, since, e.At)
			if v.cast[here].token != 0 || e.At-since < 2*c.every()+time.Second/2 {
				continue
			}
			v.complain("votes", e, "#%d has no vote of s%d since %v", id, n, since)
			l.over = true
		}
	}
}

// away returns the end of the last fault that may have kept a process from
// giving its vote back. It is not sure where an answer may be awaited for long,
// or the server did not vote: then it answers nothing about a vote.
func (v *votes) away(proc int, from, to time.Duration) (last time.Duration, sure bool) {
	last = from
	for f := range v.p.faults(proc) {
		switch {
		case f.At > to || !f.lasts() && f.end() < from-v.p.longest():
		case !f.is(brief...):
			return 0, false
		default:
			last = max(last, f.end())
		}
	}
	return last, true
}

// brief are the faults after which a process hears at once that a server did
// not do what it was asked.
var brief = []FaultKind{Refuse, Stall, CutBefore, CutAfter, CutWithin, Loading, Busy, OOM, ScriptFlush}

// closes reports whether a process has begun to close its Client.
func (p *Plan) closes(proc int, at time.Duration) bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool {
		return o.Kind == Close && o.Proc == proc && o.At <= at
	})
}
