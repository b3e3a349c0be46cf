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

// skewExplored is what the search found, and the length of its tick.
type skewExplored struct {
	skew.Exploration
	scenario skew.Scenario
	tick     time.Duration
	events   []skewEvent
	leftOut  bool // getsetlock clients take part, and could not be put into the search
}

// skewEvent is one line of the shortest trace.
type skewEvent struct {
	at                 time.Duration
	who, event, effect string
	won, over          bool // its sender begins, or ends, to take itself for the holder
}

// exploreStates bounds the search to seconds and to some hundred megabytes.
// Tests use fewer states.
var exploreStates = 1_500_000

func (a *skewAnswer) explore(e *out.Env, ctx context.Context, quiet bool) error {
	sc, tick, err := a.scenario()
	if err != nil {
		return err
	}
	bar := e.Progress(quiet, "exploring", -1)
	defer bar.End()
	x, err := awaited(ctx, func() (skew.Exploration, error) { return skew.Explore(sc) })
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

// scenario returns the question in ticks. Rounding stays on the same side of
// each limit as the law.
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

// roundLateness keeps a scenario on the law's side of its second condition too.
// That condition concerns dialects that judge the reply of GETSET by a new
// clock reading. Rounding alone must neither make a late winner nor remove one.
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

// addOurs adds one getsetlock client to the old clients, with the longest lease
// that the lease rule allows. It adds none if that lease is too short to be cut
// into ticks.
func (a *skewAnswer) addOurs(sc *skew.Scenario, tick time.Duration) {
	if a.dialect.OrMine {
		sc.Old = 1 // two of them do not exclude each other, which would hide what a getsetlock client does
	}
	o := skew.Ours{Clients: 1, Phase: skew.PhaseObserve, TTL: sc.Lease - sc.Ahead - sc.Gap, Margin: 1,
		Stop: 1, TakeoverMargin: sc.Ahead}
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

// placeServer sets the server's clock as --behind and --ahead say, and tells
// the getsetlock client. Distances of more than a few leases all have the same
// effect, so they are cut.
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

// scenarioOfOurs returns a scenario without old clients: two getsetlock
// clients, whose requests take any time.
func (a *skewAnswer) scenarioOfOurs() (skew.Scenario, time.Duration) {
	sc := skew.Scenario{Dialect: a.dialect, MaxStates: exploreStates}
	sc.Ours = skew.Ours{Clients: 2, Phase: skew.PhaseClean, TTL: 5, Margin: 1, Stop: 1, Late: true}
	if a.protocol == "sealed" {
		sc.Ours.Phase = skew.PhaseSealed
	}
	return sc, max(a.law.Lease/5, time.Millisecond)
}

// timeline returns the trace with the question's own times.
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

// begins reports whether the event's sender takes itself for the holder from
// then on.
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

// ends reports whether the event's sender no longer takes itself for the
// holder.
func ends(ev skew.Event) bool {
	switch ev.What {
	case "del", "crash", "stop":
		return true
	case "look", "decide":
		return ev.Result == "kept"
	}
	return false
}

// eventText returns the explorer's sentence about one event, with clock
// readings in the question's times instead of ticks.
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
		text = strings.Replace(text, fmt.Sprintf("by %+d", ev.Arg),
			"by "+out.Short(time.Duration(ev.Arg)*tick), 1)
	}
	return text
}

// exploreResult is the field explore of the document.
type exploreResult struct {
	States   int           `json:"states"`
	Safe     *bool         `json:"safe"` // null: the search gave up before it had seen all states
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
	r := &exploreResult{States: x.States, Complete: x.Complete, TickMS: out.Millis(x.tick),
		Trace: []traceResult{}}
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

// says returns what the search found, in a sentence.
func (x *skewExplored) says() string {
	who := fmt.Sprintf("%d old clients", x.scenario.Old)
	switch n := x.scenario.Ours.Clients; {
	case x.scenario.Old == 0:
		who = fmt.Sprintf("%d getsetlock clients", n)
	case n > 0:
		who += fmt.Sprintf(" and %d of getsetlock", n)
	case x.leftOut:
		who += " (getsetlock clients are left out: their lease would be shorter than a tick)"
	}
	switch {
	case x.Found:
		return fmt.Sprintf(
			"Explored: the shortest way to two holders, among %s. All times are rounded to ticks of %s.", who,
			out.Short(x.tick))
	case x.Complete:
		return fmt.Sprintf("Explored: all %d states of %s, in ticks of %s; two clients never hold at once.",
			x.States, who, out.Short(x.tick))
	}
	return fmt.Sprintf("Explored: %d states of %s, in ticks of %s, without two holders. There are more states, so this proves nothing.", x.States, who, out.Short(x.tick))
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
