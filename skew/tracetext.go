package skew

import (
	"cmp"
	"fmt"
	"strings"
)

// eventWords are the words of the trace format, and what they mean.
var eventWords = [...]struct {
	word, says string
	arg        bool
}{
	evRead:  {"clock", "reads its clock, which is %+d, and makes its stamp", true},
	evSetnx: {"setnx", "SETNX", false}, evGet: {"get", "GET", false},
	evJudge:  {"judge", "reads its clock again (%+d), finds the value expired, makes a new stamp", true},
	evGetset: {"getset", "finds the value expired by its clock (%+d), GETSET", true},
	evReply:  {"reply", "judges what GETSET returned by its clock (%+d)", true},
	evExpire: {"expire", "EXPIRE", false}, evLast: {"setnx", "SETNX once more", false},
	evLook:   {"look", "looks before its release", false},
	evDecide: {"decide", "looks at its own time before its release", false},
	evDel:    {"del", "DEL", false}, evCrash: {"crash", "crashes", false},
	evQuit:   {"quit", "gives its attempt up", false},
	evExtend: {"extend", "renews by a clock reading of %+d", true},
	evFleet:  {"step", "all old clocks step by %+d", true},
	evServer: {"step", "its clock steps by %+d", true},
	evSend:   {"send", "sends an attempt", false}, evCancel: {"cancel", "cancels its attempt", false},
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

var outcomes = [...]string{
	outNone: "", outWon: "won", outLost: "lost", outNil: "nil", outHeld: "held", outDone: "done",
	outTakeover: "takeover", outMissing: "missing",
	outKept: "kept", outOther: "value", outNoted: "noted", outGreatest: "greatest",
}

func named(ev event, now int, names order) Event {
	k := eventWords[ev.kind]
	e := Event{At: now, Who: "record", What: k.word, Arg: int(ev.arg), HasArg: k.arg,
		Result: outcomes[ev.out]}
	if !k.arg {
		e.Arg = 0
	}
	switch {
	case ev.kind == evFleet:
		e.Who = "fleet"
	case ev.kind == evServer:
		e.Who = "server"
	case ev.kind == evShorten:
		e.Who = "other"
	case ev.who >= firstOur:
		e.Who = fmt.Sprintf("ours%d", names.our[ev.who-firstOur]+1)
	case ev.who >= firstOld:
		e.Who = fmt.Sprintf("old%d", names.old[ev.who-firstOld]+1)
	}
	return e
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

// String returns the event as a line of the text format.
func (e Event) String() string {
	line := fmt.Sprintf("%d %s %s", e.At, e.Who, e.What)
	if e.HasArg {
		line += fmt.Sprintf(" %+d", e.Arg)
	}
	if e.Result != "" {
		line += " " + e.Result
	}
	return line
}
