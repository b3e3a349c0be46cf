// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
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

// head is a scenario as traces state it: its dialect by name.
type head struct {
	Dialect string
	*Scenario
}

// String returns the trace in the text format: "# " and the scenario as JSON,
// without what is zero, then one event a line,
//
//	TICK WHO WHAT [ARG] [RESULT]
//
// separated by single blanks. ARG is a signed number ("+2"), RESULT a word.
func (t Trace) String() string {
	sc := t.Scenario
	sc.MaxStates = 0
	first, err := json.Marshal(head{sc.Dialect.Name, &sc})
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", first)
	for _, e := range t.Events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// ParseTrace reads a trace in the text format of [Trace.String], whose Length
// it does not know. A text without a head has an empty scenario. The error
// names the first line that it cannot read.
func ParseTrace(text string) (Trace, error) {
	var t Trace
	n := 0
	for line := range strings.Lines(text) {
		n++
		var err error
		if first, is := strings.CutPrefix(line, "# "); is {
			t.Scenario, err = parseHead(first)
		} else {
			var e Event
			e, err = parseEvent(line)
			t.Events = append(t.Events, e)
		}
		if err != nil {
			return Trace{}, fmt.Errorf("trace line %d: %w", n, err)
		}
	}
	return t, nil
}

func parseHead(text string) (sc Scenario, err error) {
	h := head{Scenario: &sc}
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err = in.Decode(&h); err == nil {
		sc.Dialect, err = dialect.Lookup(h.Dialect)
	}
	return sc, err
}

func parseEvent(line string) (Event, error) {
	f := strings.Fields(line)
	bad := fmt.Errorf("%q is not TICK WHO WHAT [ARG] [RESULT]", line)
	if len(f) < 3 {
		return Event{}, bad
	}
	e := Event{Who: f[1], What: f[2]}
	var err error
	e.At, err = strconv.Atoi(f[0])
	rest := f[3:]
	if len(rest) > 0 && strings.Contains("+-", rest[0][:1]) {
		var wrong error
		e.Arg, wrong = strconv.Atoi(rest[0])
		e.HasArg, rest, err = true, rest[1:], cmp.Or(err, wrong)
	}
	if len(rest) == 1 {
		e.Result = rest[0]
	}
	if err != nil || len(rest) > 1 {
		return Event{}, bad
	}
	return e, nil
}
