package offset

import (
	"fmt"
	"time"
)

// ContradictionKind names what broke an interval. It is certain that one of the
// kinds happened. Which of them is the likeliest, by the rule at each.
type ContradictionKind string

// The kinds.
const (
	// Step: from one write on, all writes fit another offset, and none goes
	// back and forth. A fast slew looks the same.
	Step ContradictionKind = "step"
	// LateWrite: one write alone fits an earlier offset than those before and
	// after it. It was executed longer after its clock reading than was
	// assumed, or the clock was back for that one write.
	LateWrite ContradictionKind = "late_write"
	// TwoProcesses: writes alternate between two offsets, or jump back and
	// forth three times in a row. The second happens where both processes wait
	// for one connection so long that the command before a write shows nothing.
	TwoProcesses ContradictionKind = "two_processes"
	// WrongLease: writes alternate between two offsets that differ by whole
	// seconds. Or the client took over stamps, or left them, at times that its
	// offset by its own stamps rules out.
	WrongLease ContradictionKind = "wrong_lease"
	// ServerStepped: a write is dated before the command that preceded it, or
	// every writer of a fleet stepped by the same amount between the same
	// instants.
	ServerStepped ContradictionKind = "server_stepped"
)

// Contradiction is an empty intersection with its likeliest cause.
type Contradiction struct {
	Kind ContradictionKind
	// From and Until are the server's instants between which it happened, or
	// the first and last write that show it.
	From, Until time.Time
	// By is an amount that depends on Kind. Step: how far the offset moved.
	// LateWrite: how much later than assumed the write was. TwoProcesses: how
	// far the two clocks are apart, later less earlier. WrongLease: how far the
	// real lease is from the given one, or from the other lease in use.
	// ServerStepped: how far the server's clock moved.
	By Interval
	// between are the executions of the last write before a step and of the
	// first one after it, by the server's clock in ns. The clock may have been
	// read, and may have stepped, long before.
	between [2]int64
}

// String returns part of a sentence, for a report. Amounts and instants are
// widened to whole milliseconds, or microseconds where an amount is known that
// well: more digits hide what matters.
func (c Contradiction) String() string {
	what := map[ContradictionKind]string{
		Step: "clock stepped by", TwoProcesses: "two processes, whose clocks differ by",
		WrongLease: "lease is off by", ServerStepped: "server's clock stepped by",
		LateWrite: "one write was late, or its clock back for that write alone, by",
	}[c.Kind]
	until := c.Until.Truncate(time.Millisecond)
	if until.Before(c.Until) {
		until = until.Add(time.Millisecond)
	}
	from := c.From.Truncate(time.Millisecond)
	return fmt.Sprintf("%s %v, between %s and %s", what, c.By.widened(),
		from.UTC().Format(time.RFC3339Nano), until.UTC().Format(time.RFC3339Nano))
}

// widened returns the interval with ends of few digits, which contains i. An
// unknown end stays unknown.
func (i Interval) widened() Interval {
	unit := time.Millisecond
	if i.Bounded() && i.Width() < 10*unit {
		unit = time.Microsecond
	}
	if low := i.Low.Truncate(unit); i.Low != NoLow && low > i.Low {
		i.Low = low - unit
	} else if i.Low != NoLow {
		i.Low = low
	}
	if high := i.High.Truncate(unit); i.High != NoHigh && high < i.High {
		i.High = high + unit
	} else if i.High != NoHigh {
		i.High = high
	}
	return i
}

// Contradictions lists what shows that the writes so far did not come from one
// steady clock. An empty list means that nothing contradicts the assumptions,
// which does not prove them. Where there are many, the oldest are forgotten.
func (e *Estimator) Contradictions() []Contradiction {
	out := append([]Contradiction(nil), e.backs...)
	out = append(out, e.late()...)
	out = append(out, toAndFro(e.steps())...)
	out = append(out, e.turns()...)
	if c, ok := e.freeDisagrees(); ok {
		out = append(out, c)
	}
	return out
}

// isLate reports whether a run is one write that fits an earlier offset than
// the track on both its sides. Three writes that fit the same earlier offset
// belong to another clock.
func (e *Estimator) isLate(i int) bool {
	if i == 0 || i+1 >= len(e.runs) {
		return false
	}
	before, t := e.runs[i-1].track, e.runs[i].track
	if e.runs[i+1].track != before || e.runs[i].count > 1 ||
		t.count >= leastJumps || !t.hasHigh || !before.hasLow {
		return false
	}
	return t.high.offset < before.at(e.ppm, t.high.at).Low
}

// late lists the writes that came later than was assumed.
func (e *Estimator) late() []Contradiction {
	var out []Contradiction
	for i := range e.runs {
		if !e.isLate(i) {
			continue
		}
		t := e.runs[i].track
		by := e.runs[i-1].track.at(e.ppm, t.high.at).minus(Interval{NoLow, t.high.offset})
		out = append(out, Contradiction{
			Kind: LateWrite, From: time.Unix(0, t.high.at).UTC(), Until: time.Unix(0, t.first).UTC(), By: by,
		})
	}
	return out
}

// lasting returns the runs without late writes, which begin no lasting track.
func (e *Estimator) lasting() []run {
	var out []run
	for i, r := range e.runs {
		switch n := len(out); {
		case e.isLate(i):
		case n > 0 && out[n-1].track == r.track:
			out[n-1].last = r.last
		default:
			out = append(out, r)
		}
	}
	return out
}

// steps returns the changes from one track to the next, where the two do not
// alternate.
func (e *Estimator) steps() []jump {
	var out []jump
	runs := e.lasting()
	for i := 1; i < len(runs); i++ {
		before, after := runs[i-1].track, runs[i].track
		if e.byTurns(before, after) {
			continue
		}
		from, until := runs[i-1].last, runs[i].last
		if e.runsOf(after) == 1 {
			from, until = after.after, after.first
		}
		// If the server was set back, the last write before the step is dated
		// later than the first after it.
		end := max(until, runs[i-1].last)
		by := after.at(e.ppm, until).minus(before.before(e.ppm, from, end))
		from, until = min(from, until), end
		out = append(out, jump{
			Contradiction{Kind: Step, From: time.Unix(0, from).UTC(), Until: time.Unix(0, until).UTC(),
				By: by, between: e.between(runs[i-1], runs[i])},
			// The direction uses all that is known of both tracks; the amount
			// uses less.
			direction(after.at(e.ppm, end).minus(before.at(e.ppm, end))),
		})
	}
	return out
}

// between returns the executions on both sides of a step.
func (e *Estimator) between(before, after run) [2]int64 {
	if e.runsOf(after.track) == 1 {
		return [2]int64{before.last, after.track.first}
	}
	return [2]int64{before.last, after.last}
}

// jump is a step and its direction: 1 forwards, −1 back, 0 unknown.
type jump struct {
	Contradiction
	way int
}

// leastJumps is how many steps of changing direction make two processes. A
// clock that was set wrong and back makes two.
const leastJumps = 3

// toAndFro makes one contradiction of consecutive steps that each undo the one
// before.
func toAndFro(steps []jump) []Contradiction {
	var out []Contradiction
	for i := 0; i < len(steps); {
		n := 1
		for i+n < len(steps) && steps[i+n].way*steps[i+n-1].way < 0 {
			n++
		}
		if n < leastJumps {
			out = append(out, steps[i].Contradiction)
			i++
			continue
		}
		two := Contradiction{Kind: TwoProcesses, From: steps[i].From, Until: steps[i+n-1].Until,
			By: steps[i].By}
		for _, s := range steps[i+1 : i+n] {
			by := s.By
			if s.way != steps[i].way {
				by = Interval{}.minus(by)
			}
			two.By = closer(two.By, by)
		}
		out = append(out, two)
		i += n
	}
	return out
}

func direction(by Interval) int {
	switch {
	case by.Low != NoLow && by.Low > 0:
		return 1
	case by.High != NoHigh && by.High < 0:
		return -1
	}
	return 0
}

// closer returns what two measures of one distance both allow or, where they
// disagree, all that either allows.
func closer(a, b Interval) Interval {
	if both := a.intersect(b); !both.Empty() {
		return both
	}
	return a.hull(b)
}

// byTurns reports whether the writes went a, b, a, b. A clock that stepped and
// was set back makes only a, b, a.
func (e *Estimator) byTurns(a, b *track) bool {
	return a != b && e.runsOf(a) > 1 && e.runsOf(b) > 1
}

func (e *Estimator) turns() []Contradiction {
	var out []Contradiction
	for i, a := range e.tracks {
		for _, b := range e.tracks[i+1:] {
			if !e.byTurns(a, b) {
				continue
			}
			from, until := max(a.first, b.first), min(a.last, b.last)
			from, until = min(from, until), max(from, until)
			by := b.at(e.ppm, until).minus(a.at(e.ppm, until))
			out = append(out, Contradiction{
				Kind: kindOfTurns(by, a.keys.disjoint(&b.keys)),
				From: time.Unix(0, from).UTC(), Until: time.Unix(0, until).UTC(), By: by,
			})
		}
	}
	return out
}

// kindOfTurns tells two processes from a wrong lease. Clocks of two machines
// differ by any amount, leases by round ones. If a difference is known to a
// tenth of a second and allows whole seconds, chance explains one case in ten.
// If each has its own keys, half a second is enough.
func kindOfTurns(by Interval, ownKeys bool) ContradictionKind {
	known := 100 * time.Millisecond
	if ownKeys {
		known = 500 * time.Millisecond
	}
	if by.Width() > known {
		return TwoProcesses
	}
	if whole := floorTo(by.High, time.Second); whole != 0 && whole >= by.Low {
		return WrongLease
	}
	return TwoProcesses
}

func floorTo(d, step time.Duration) time.Duration {
	rest := d % step
	if rest < 0 {
		rest += step
	}
	return d - rest
}

// freeDisagrees compares the newest track, which depends on the lease, with the
// judgements, which do not, if both are about the same time.
func (e *Estimator) freeDisagrees() (Contradiction, bool) {
	if len(e.tracks) == 0 || e.free.count == 0 {
		return Contradiction{}, false
	}
	t := e.newest()
	if t.count < 2 || e.free.last > t.last {
		return Contradiction{}, false
	}
	stamps, judged := t.at(e.ppm, e.free.last), e.free.at(e.ppm, e.free.last)
	if !stamps.intersect(judged).Empty() {
		return Contradiction{}, false
	}
	return Contradiction{
		Kind: WrongLease, From: time.Unix(0, e.free.first).UTC(), Until: time.Unix(0, e.free.last).UTC(),
		By: stamps.minus(judged),
	}, true
}

// roundLeases are the leases that people usually configure.
var roundLeases = []time.Duration{
	time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, 90 * time.Second, 2 * time.Minute,
	3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// SnapLease guesses a lease that is not known. assumed is the lease that the
// writes were added with, and offset the result. A lease that is wrong by x
// moves the offset by x, so the sum is known and its parts are not. SnapLease
// returns the round number nearest to the sum, with a warning that must be
// shown. ok is false where no round number is clearly nearest.
//
// Relative offsets within a fleet that shares one lease need no guess. They are
// exact, and only they matter for safety.
func SnapLease(assumed time.Duration, offset Interval) (lease time.Duration, warning string, ok bool) {
	if !offset.Bounded() || offset.Empty() {
		return 0, "", false
	}
	sum := offset.Shift(assumed)
	middle := sum.Low + (sum.High-sum.Low)/2
	best, second := NoHigh, NoHigh
	for _, l := range roundLeases {
		switch away := (middle - l).Abs(); {
		case away < best:
			best, second, lease = away, best, l
		case away < second:
			second = away
		}
	}
	// The number must be four times nearer than any other, and no further away
	// than a tenth of itself.
	if reach := best + sum.Width()/2; 4*reach > second || reach > lease/10 {
		return 0, "", false
	}
	warning = fmt.Sprintf("lease %v is a guess, the round number nearest to what was written; "+
		"offsets are right only if it is, relative ones if all clients share it", lease)
	return lease, warning, true
}
