// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"fmt"
	"math"
	"time"
)

// Clock follows one writer's clock, to notice that it stepped. The zero Clock
// knows nothing.
//
// It assumes that between two steps the clock's rate error stays below 500
// ppm, as fast as ntpd slews. It also assumes that one process writes, that its
// lease does not change, and that the given intervals are right. So what it
// says is for people. No gate and no takeover may depend on it.
type Clock struct {
	kept  Interval // what all writes since the last step allow together
	at    time.Time
	known bool
}

const (
	// clockRate is the greatest rate error of a clock that does not step.
	clockRate = 500e-6
	// LeastStep is the least step that a Clock reports. Smaller ones look like
	// pauses and slews.
	LeastStep = time.Second
)

// Step says that no steady clock can have written what was seen.
type Step struct {
	// From and Until are the writes between which the clock stepped, by the
	// server's clock.
	From  time.Time     `json:"from"`
	Until time.Time     `json:"until"`
	By    time.Duration `json:"by_ms"` // at least so far; positive: forwards
}

// String returns part of a sentence, for a report.
func (s Step) String() string {
	way := "forwards"
	if s.By < 0 {
		way = "back"
	}
	return fmt.Sprintf("clock stepped %s by at least %v, between %s and %s", way,
		s.By.Abs().Truncate(time.Millisecond), s.From.UTC().Format(stepTime), s.Until.UTC().Format(stepTime))
}

const stepTime = "2006-01-02T15:04:05.000Z"

// At returns what the writes since the last step allow of the offset at an
// instant.
func (c *Clock) At(at time.Time) Interval {
	if !c.known {
		return Interval{NoLow, NoHigh}
	}
	by := time.Duration(math.Abs(float64(at.Sub(c.at))) * clockRate)
	return Interval{shifted(c.kept.Low, -by), shifted(c.kept.High, by)}
}

// Add takes what one write allows. It returns the step, and true, if the clock
// stepped by LeastStep or more since the writes before.
func (c *Clock) Add(at time.Time, one Interval) (Step, bool) {
	before := c.At(at)
	step := Step{From: c.at, Until: at}
	switch {
	case before.High != NoHigh && one.Low > before.High:
		step.By = one.Low - before.High
	case before.Low != NoLow && one.High < before.Low:
		step.By = one.High - before.Low
	default:
		one = Interval{max(before.Low, one.Low), min(before.High, one.High)}
	}
	c.kept, c.at, c.known = one, at, true
	return step, step.By.Abs() >= LeastStep
}

// shifted moves an end of an interval unless it is open.
func shifted(end, by time.Duration) time.Duration {
	if end == NoLow || end == NoHigh {
		return end
	}
	return end + by
}
