// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/internal/explore"
)

// Event is one line of a trace: which client did what, at which tick, and with
// which result. Who is old1 … or ours1 …, or one of server, fleet, record,
// other.
type Event = explore.Event

// Trace is a shortest way to the goal.
type Trace struct {
	Scenario Scenario
	Events   []Event // without ticks, which At counts
	Length   int     // with ticks
}

// ourWords are the words of the trace format that old clients do not need.
var ourWords = [...]struct {
	word, says string
	arg        bool
}{
	evSend: {"send", "sends an attempt", false}, evCancel: {"cancel", "cancels its attempt", false},
	evAcquire: {"acquire", "its acquire script runs", false},
	evAnswer:  {"answer", "the reply arrives", false},
	evCheck:   {"check", "has settled and looks again", false},
	evPass:    {"pass", "hands its grant over to a waiter of its process", false},
	evRenew:   {"renew", "sends a renewal", false}, evRenewed: {"renewed", "its renewal runs", false},
	evToldLost: {"lost", "learns that the lease is lost", false},
	evStop:     {"stop", "its job has stopped", false},
	evRelease:  {"release", "its release script runs", false}, evDie: {"crash", "crashes", false},
	evSample: {"sample", "looks at the key", false}, evDrop: {"drop", "its command never arrives", false},
	evLearn: {"learn", "reads the record", true}, evAdvance: {"advance", "the record advances", true},
	evBack: {"back", "the record goes back", true}, evSweep: {"sweep", "the tombstone is deleted", false},
	evRestore: {"restore", "the tombstone is put back without taking M", false},
	evInit:    {"init", "a new record begins", true},
	evLate:    {"late", "goes on while its release is still on its way", false},
	evShorten: {"shorten", "another program's EXPIRE leaves the key %+d", true},
	evRevert:  {"revert", "an older record is restored", true},
	evVanish:  {"vanish", "its heartbeats stop, and it goes on", false},
	evBeat:    {"beat", "its heartbeats come again", false},
	evEmpty:   {"empty", "the registry loses its members", false},
	evLose:    {"miss", "the registry loses it, and it goes on", false},
	evForget:  {"forget", "a human takes it out of the registry", false},
	evAsk:     {"ask", "a slow verb reads the record", false},
	evRoll:    {"roll", "a slow verb reads the registry", false},
	evEnter:   {"enter", "writes its field of the registry", false},
	evTime:    {"time", "asks the server's time for a look", false},
	evNote:    {"note", "its script remembers the look", false},
	evBegin:   {"begin", "begins an attempt by the phase that it has read", false},
	evFlush:   {"flush", "the server loses record and registry", false},
}

var ourOutcomes = [...]string{outHeld: "held", outTakeover: "takeover", outNoted: "noted"}

// allWords are all words of the trace format, and what they mean.
func allWords() explore.Vocabulary {
	v := explore.OldWords()
	for _, w := range ourWords[explore.Kinds:] {
		v.Acts = append(v.Acts, explore.Word{Word: w.word, Says: w.says, Arg: w.arg})
	}
	v.Outcomes = append(v.Outcomes, ourOutcomes[explore.Outcomes:]...)
	for result, says := range map[string]string{
		"acquire noted": "it remembers the expired value, and when it saw it",
		"acquire won":   "it takes the key", "note noted": "done", "note kept": "another value is there",
		"check won": "its mark is there, it holds", "check lost": "its mark is gone",
		"renewed won": "renewed", "renewed lost": "refused", "sample kept": "the same bytes",
		"held": "held by another", "takeover": "it replaces an expired value and takes the key",
	} {
		v.Results[result] = says
	}
	return v
}

// Event returns an act in words.
func (m *machine) Event(a event, now int, names explore.Order) Event {
	e := m.words.Event(a, now, names)
	switch {
	case a.Kind == evShorten:
		e.Who = "other"
	case a.Who >= firstOur:
		e.Who = fmt.Sprintf("ours%d", names.Others[a.Who-firstOur]+1)
	case e.Who == "":
		e.Who = "record"
	}
	return e
}

// Words describes the trace to a reader, one event a line.
func (t Trace) Words() string {
	words := allWords()
	var b strings.Builder
	for _, e := range t.Events {
		fmt.Fprintf(&b, "%4d  %-6s %s\n", e.At, e.Who, words.Says(e))
	}
	return b.String()
}

// String returns the trace in the text format: a head of "# name value" lines,
// then one event a line,
//
//	TICK WHO WHAT [ARG] [RESULT]
//
// separated by single blanks. ARG is a signed number ("+2"), RESULT a word.
func (t Trace) String() string {
	var b strings.Builder
	sc := t.Scenario
	fmt.Fprintf(&b, "# trace 1\n# goal %s\n# dialect %s\n", sc.Goal, sc.Dialect.Name)
	fmt.Fprintf(&b, "# old %d lease %d job %d gap %d reply %d rest %d behind %d ahead %d\n",
		sc.Old, sc.Lease, sc.Job, sc.Gap, sc.Reply, sc.Rest, sc.Behind, sc.Ahead)
	if o := sc.Ours; o.Clients > 0 {
		fmt.Fprintf(&b, "# ours %d ttl %d long %d margin %d stop %d settle %d takeover %d unchanged %d sparse %d look %d\n",
			o.Clients, o.TTL, o.Long, o.Margin, o.Stop, o.Settle, o.TakeoverMargin, o.Unchanged, o.Sparse,
			o.Look)
		if o.Leaves > 0 {
			fmt.Fprintf(&b, "# leaves %d\n", o.Leaves)
		}
		if o.Renewals > 0 {
			fmt.Fprintf(&b, "# renewals %d attempts %d waits %d\n", o.Renewals, o.Attempts, o.Waits)
		}
		fmt.Fprintf(&b, "# phase %s\n", cmp.Or(o.Phase, PhaseObserve))
		if o.Break != 0 {
			fmt.Fprintf(&b, "# without %s\n", o.Break)
		}
	}
	if with := sc.options(); len(with) > 0 {
		fmt.Fprintf(&b, "# with %s\n", strings.Join(with, ", "))
	}
	for _, e := range t.Events {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// options returns what a scenario has besides its numbers.
func (sc Scenario) options() []string {
	var with []string
	for _, o := range []struct {
		name string
		on   bool
	}{
		{"overrun", sc.Overrun}, {"renews", sc.Renews}, {"own delay", sc.OwnDelay},
		{"prompt ends", sc.PromptEnds}, {"stamp at write", sc.StampAtWrite}, {"step undone", sc.StepUndone},
		{"fail-over", sc.FailOver},
		{"behind known", sc.Ours.Known}, {"behind measured", sc.Ours.Measured},
		{"watched", sc.Ours.Watched},
		{"looks elsewhere", sc.Ours.Elsewhere}, {"old server", sc.Ours.OldServer},
		{"no tombstone", sc.Ours.NoTombstone}, {"late", sc.Ours.Late}, {"forget", sc.Ours.Forget},
		{"newcomers", sc.Ours.Newcomers},
		{"deaf", sc.Ours.Deaf}, {"again", sc.Ours.Again}, {"restored", sc.Ours.Restored},
		{"vanishes", sc.Ours.Vanishes}, {"empties", sc.Ours.Empties}, {"loses", sc.Ours.Loses},
		{"joins", sc.Ours.Joins}, {"slow verb", sc.Ours.Slow},
		{"rests", sc.Ours.Rests}, {"long attempts", sc.Ours.LongAttempts},
		{"loses record", sc.Ours.LosesRecord},
		{"composes", sc.Ours.Composes},
		{"settle always", sc.Ours.SettleAlways},
	} {
		if o.on {
			with = append(with, o.name)
		}
	}
	for _, n := range []struct {
		name  string
		ticks int
	}{{"fleet step", -sc.FleetStep}, {"server step", sc.ServerStep}, {"shorten", sc.Shorten},
		{"unit", sc.Unit}, {"greatest", sc.Greatest}, {"stamp ahead", sc.Ours.StampAhead}} {
		if n.ticks != 0 {
			with = append(with, fmt.Sprintf("%s %+d", n.name, n.ticks))
		}
	}
	if sc.Ours.Clients > 0 && sc.Ours.To != "" && sc.Ours.To != cmp.Or(sc.Ours.Phase, PhaseObserve) {
		with = append(with, "to "+string(sc.Ours.To))
	}
	return with
}
