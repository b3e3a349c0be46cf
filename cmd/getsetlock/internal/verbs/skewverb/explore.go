package skewverb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// skewExplored is what the search found, and how long its tick is.
type skewExplored struct {
	skew.Exploration
	scenario skew.Scenario
	tick     time.Duration
	events   []skewEvent
	leftOut  bool // ours take part, and could not be put into the search
}

// skewEvent is one line of the shortest trace.
type skewEvent struct {
	at                 time.Duration
	who, event, effect string
	won, over          bool // its sender begins, or ends, to take itself for the holder
}

// exploreStates keep the search to seconds and to some hundred megabytes. Tests make do with fewer.
var exploreStates = 1_500_000

func (a *skewAnswer) explore(e *out.Env, ctx context.Context, quiet bool) error {
	sc, tick, err := a.scenario()
	if err != nil {
		return err
	}
	bar := e.Progress(quiet, "exploring", -1)
	defer bar.End()
	x, err := exploring(ctx, sc)
	if cause := context.Cause(ctx); cause != nil {
		return out.CouldNot(cause, "exploring")
	}
	if err != nil {
		return out.CouldNot(err, "exploring")
	}
	a.explored = &skewExplored{Exploration: x, scenario: sc, tick: tick, events: timeline(x.Trace, tick),
		leftOut: a.ours() && sc.Ours.Clients == 0}
	return nil
}

// scenario is the question in ticks, on the law's side of every limit.
func (a *skewAnswer) scenario() (skew.Scenario, time.Duration, error) {
	if !a.oldHold() {
		sc, tick := a.scenarioOfOurs()
		return sc, tick, nil
	}
	sc, tick, err := a.law.Scenario(2)
	if err != nil {
		return sc, 0, err
	}
	sc.MaxStates = exploreStates
	a.roundLateness(&sc)
	if a.ours() {
		a.addOurs(&sc, tick)
	}
	return sc, tick, nil
}

// roundLateness keeps a scenario on the law's side of its second condition too: in dialects that judge
// what GETSET returned by a new reading, rounding alone must not make a late winner, nor unmake one.
func (a *skewAnswer) roundLateness(sc *skew.Scenario) {
	d := sc.Dialect
	if !d.JudgesAnew || d.Wins != dialect.WinsExpired && d.Wins != dialect.WinsExpiredOrNil {
		return
	}
	room := sc.Lease - sc.Ahead
	if d.Slack > 0 {
		room++
	}
	if d.C() < d.Slack {
		room--
	}
	if a.verdict.LateWinner {
		sc.Reply = max(sc.Reply, room-2*sc.Gap+1)
		return
	}
	for sc.Gap > 0 && 2*sc.Gap > room {
		sc.Gap--
	}
	sc.Reply = max(0, min(sc.Reply, room-2*sc.Gap))
	if a.law.Job > a.verdict.LongestJob.Bound {
		sc.Job = max(sc.Job, room-sc.Gap+1)
	}
}

// addOurs puts one of ours beside the old clients, with the longest lease that the lease rule allows.
// Where that is too short to be cut into ticks, there is nobody to put there.
func (a *skewAnswer) addOurs(sc *skew.Scenario, tick time.Duration) {
	if a.dialect.OrMine {
		sc.Old = 1 // two of them do not exclude each other, which would hide what ours do
	}
	o := skew.Ours{Clients: 1, Phase: skew.PhaseObserve, TTL: sc.Lease - sc.Ahead - sc.Gap, Margin: 1, Stop: 1, TakeoverMargin: sc.Ahead}
	if a.protocol == "dual" {
		o.Phase = skew.PhaseDual
	}
	if a.dialect.NeedsSettleEvery() {
		o.Settle = sc.Gap + 1
	}
	if o.TTL > o.Margin {
		a.placeServer(sc, &o, tick)
		sc.Ours = o
	} else {
		sc.Old = 2
	}
}

// placeServer puts the server where --behind and --ahead say it is, and lets ours know of it. Distances beyond some leases are
// alike to everybody.
func (a *skewAnswer) placeServer(sc *skew.Scenario, o *skew.Ours, tick time.Duration) {
	const most = 20
	spread := sc.Ahead
	behind := -a.slowest(a.law.Spread)
	ticks := int(min(max((behind+tick-1)/tick, -most), most))
	sc.Behind, sc.Ahead = ticks, spread-ticks
	if _, known := dialect.Claimed(a.behind); known {
		o.Known, o.TakeoverMargin = true, max(spread, sc.Behind)
	}
}

// scenarioOfOurs has no old clients: two of ours, with requests that take any time.
func (a *skewAnswer) scenarioOfOurs() (skew.Scenario, time.Duration) {
	sc := skew.Scenario{Dialect: a.dialect, MaxStates: exploreStates}
	sc.Ours = skew.Ours{Clients: 2, Phase: skew.PhaseClean, TTL: 5, Margin: 1, Stop: 1, Late: true}
	if a.protocol == "sealed" {
		sc.Ours.Phase = skew.PhaseSealed
	}
	return sc, max(a.law.Lease/5, time.Millisecond)
}

// timeline is the trace in the question's own times.
func timeline(t skew.Trace, tick time.Duration) []skewEvent {
	var all []skewEvent
	for _, ev := range t.Events {
		e := skewEvent{at: time.Duration(ev.At) * tick, who: ev.Who}
		e.event, e.effect, _ = strings.Cut(eventText(ev, tick), ": ")
		e.won, e.over = begins(ev, t.Scenario.Ours), ends(ev)
		all = append(all, e)
	}
	return all
}

// begins says that whoever did it takes itself for the holder from here on.
func begins(ev skew.Event, ours skew.Ours) bool {
	switch ev.What {
	case "acquire":
		return (ev.Result == "won" || ev.Result == "takeover") && !ours.Late && ours.Settle == 0
	case "answer":
		return ours.Settle == 0
	case "renewed":
		return false
	}
	return ev.Result == "won"
}

// ends says that it does so no longer.
func ends(ev skew.Event) bool {
	switch ev.What {
	case "del", "crash", "stop":
		return true
	case "look", "decide":
		return ev.Result == "kept"
	}
	return false
}

// eventText is the explorer's sentence about one event. Its readings of clocks are in ticks.
func eventText(ev skew.Event, tick time.Duration) string {
	text := strings.TrimSpace(skew.Trace{Events: []skew.Event{ev}}.Words())
	_, text, _ = strings.Cut(text, ev.Who)
	text = strings.TrimSpace(text)
	if ev.HasArg && ev.Who != "record" {
		reading := "which is right"
		if off := time.Duration(ev.Arg) * tick; off > 0 {
			reading = out.Short(off) + " ahead"
		} else if off < 0 {
			reading = out.Short(-off) + " behind"
		}
		text = strings.Replace(text, fmt.Sprintf("which is %+d", ev.Arg), reading, 1)
		text = strings.Replace(text, fmt.Sprintf("(%+d)", ev.Arg), "("+reading+")", 1)
		text = strings.Replace(text, fmt.Sprintf("by %+d", ev.Arg), "by "+out.Short(time.Duration(ev.Arg)*tick), 1)
	}
	return text
}

// exploreResult is the explore field of the document.
type exploreResult struct {
	States   int           `json:"states"`
	Safe     *bool         `json:"safe"` // null: the search gave up before it had seen everything
	Complete bool          `json:"complete"`
	TickMS   json.Number   `json:"tick_ms"`
	Trace    []traceResult `json:"trace"`
}

type traceResult struct {
	AtMS   json.Number `json:"at_ms"`
	Client string      `json:"client"`
	Event  string      `json:"event"`
	Effect *string     `json:"effect"`
}

func (x *skewExplored) document() *exploreResult {
	if x == nil {
		return nil
	}
	r := &exploreResult{States: x.States, Complete: x.Complete, TickMS: out.Millis(x.tick), Trace: []traceResult{}}
	if x.Found || x.Complete {
		safe := !x.Found
		r.Safe = &safe
	}
	for _, ev := range x.events {
		t := traceResult{AtMS: out.Millis(ev.at), Client: ev.who, Event: ev.event}
		if ev.effect != "" {
			t.Effect = &ev.effect
		}
		r.Trace = append(r.Trace, t)
	}
	return r
}

// says is what the search found, in a sentence.
func (x *skewExplored) says() string {
	who := fmt.Sprintf("%d old clients", x.scenario.Old)
	switch n := x.scenario.Ours.Clients; {
	case x.scenario.Old == 0:
		who = fmt.Sprintf("%d clients of ours", n)
	case n > 0:
		who += fmt.Sprintf(" and %d of ours", n)
	case x.leftOut:
		who += " (ours are left out: a lease of theirs would last less than a tick)"
	}
	switch {
	case x.Found:
		return fmt.Sprintf("Explored: the shortest way to two holders, among %s, in ticks of %s, to which all times are rounded.", who, out.Short(x.tick))
	case x.Complete:
		return fmt.Sprintf("Explored: all %d states of %s, in ticks of %s; two never hold.", x.States, who, out.Short(x.tick))
	}
	return fmt.Sprintf("Explored: %d states of %s, in ticks of %s, without two holders; there are more, so this proves nothing.", x.States, who, out.Short(x.tick))
}

func printExplored(e *out.Env, x *skewExplored) {
	fmt.Fprintln(e.Stdout, x.says())
	if !x.Found {
		return
	}
	fmt.Fprintln(e.Stdout)
	g := out.NewGrid(out.Right("at"), out.Left("client"), out.Left("event"), out.Left("effect"))
	for _, ev := range x.events {
		g.Add(out.Short(ev.at), ev.who, ev.event, ev.effect)
	}
	e.Print(g)
}
