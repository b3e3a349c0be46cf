// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// skewExplored is what the search found, and the length of its tick.
type skewExplored struct {
	skew.Exploration
	scenario skew.Scenario
	tick     time.Duration
	events   []skewEvent
}

// skewEvent is one line of the shortest trace.
type skewEvent struct {
	At     time.Duration `json:"at_ms"`                // time since the beginning
	Who    string        `json:"client"`               // the client that acts
	Event  string        `json:"event"`                // what it does
	Effect string        `json:"effect" answer:"null"` // what that changes; null: nothing

	won, over bool // its sender begins, or ends, to take itself for the holder
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
	var x skew.Exploration
	found := make(chan error, 1) // buffered: nobody receives from a search that is left alone
	go func() {
		explored, err := skew.Explore(sc)
		x = explored
		found <- err
	}()
	select {
	case err = <-found:
	case <-ctx.Done(): // a search cannot be stopped
	}
	if cause := context.Cause(ctx); cause != nil {
		return out.CouldNot(cause, "exploring")
	}
	if err != nil {
		return out.CouldNot(err, "exploring")
	}
	a.explored = &skewExplored{Exploration: x, scenario: sc, tick: tick, events: timeline(x.Trace, tick)}
	return nil
}

// scenario returns the question in ticks. Rounding stays on the same side of
// each limit as the law.
func (a *skewAnswer) scenario() (skew.Scenario, time.Duration, error) {
	sc, tick, err := a.law.Scenario(2)
	if err != nil {
		return sc, 0, err
	}
	sc.MaxStates = exploreStates
	a.roundLateness(&sc)
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
	if d.EffectiveSlack() < d.Slack {
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

// timeline returns the trace with the question's own times.
func timeline(t skew.Trace, tick time.Duration) []skewEvent {
	var all []skewEvent
	for _, ev := range t.Events {
		e := skewEvent{At: time.Duration(ev.At) * tick, Who: ev.Who}
		e.Event, e.Effect, _ = strings.Cut(eventText(ev, tick), ": ")
		e.won, e.over = ev.Result == "won", ends(ev)
		all = append(all, e)
	}
	return all
}

// ends reports whether the event's sender no longer takes itself for the
// holder.
func ends(ev skew.Event) bool {
	switch ev.What {
	case "del", "crash":
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
	if ev.HasArg {
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
	States   int           `json:"states"`   // number of states that the search saw
	Safe     *bool         `json:"safe"`     // null: the search gave up before it had seen all states
	Complete bool          `json:"complete"` // it saw all
	Tick     time.Duration `json:"tick_ms"`  // the step of time in which it searched
	Trace    []skewEvent   `json:"trace"`    // the shortest way to two holders, event by event
}

func (x *skewExplored) document() *exploreResult {
	if x == nil {
		return nil
	}
	r := &exploreResult{States: x.States, Complete: x.Complete, Tick: x.tick, Trace: x.events}
	if x.Found || x.Complete {
		r.Safe = new(!x.Found)
	}
	return r
}

// says returns what the search found, in a sentence.
func (x *skewExplored) says() string {
	who := fmt.Sprintf("%d old clients", x.scenario.Old)
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
