package offset

import (
	"slices"
	"time"
)

// Fleet bounds the clocks of many writers by one server's clock.
type Fleet struct {
	ppm     float64
	writers map[string]*Estimator
}

// NewFleet starts without writers. ppm is as in [NewEstimator].
func NewFleet(ppm float64) (*Fleet, error) {
	probe, err := newEstimator(ppm)
	if err != nil {
		return nil, err
	}
	return &Fleet{ppm: probe.ppm, writers: map[string]*Estimator{}}, nil
}

// Writer returns the estimator of a writer, by its address or whatever tells it apart, and makes it at
// first sight.
func (f *Fleet) Writer(name string) *Estimator {
	e, ok := f.writers[name]
	if !ok {
		e = &Estimator{ppm: f.ppm}
		f.writers[name] = e
	}
	return e
}

// Forget drops a writer, so that a fleet of short connections needs no more memory than its caller allows.
// What it proved is gone with it.
func (f *Fleet) Forget(name string) { delete(f.writers, name) }

// Writers lists the names, sorted.
func (f *Fleet) names() []string {
	out := make([]string, 0, len(f.writers))
	for name := range f.writers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Spread is what is known of the fleet's greatest clock less its smallest at one instant.
type Spread struct {
	// Proved: it is at least this much. Raise the alarm by it.
	Proved time.Duration
	// Guaranteed: it is at most this much, NoHigh where a writer's clock is not bounded or nobody wrote.
	// Feed the law and the gates with it. It speaks of the writers seen; of others nobody can.
	Guaranteed time.Duration
	// Contradicted names the writers for which an assumption is broken, sorted. While there are any,
	// Guaranteed is not: a lease may be wrong, a clock may step again.
	Contradicted []string
	// Unbounded names the writers for which an end is missing, sorted.
	Unbounded []string
}

// Sound reports that Guaranteed is a guarantee.
func (s Spread) Sound() bool {
	return len(s.Contradicted) == 0 && s.Guaranteed != NoHigh
}

// Spread judges the fleet at an instant of the server's clock, the last write's if in doubt: intervals
// widen with distance by the greatest rate. Writers whose tracks contradict count with all of them.
func (f *Fleet) Spread(at time.Time) Spread {
	s := Spread{Guaranteed: NoHigh}
	var lows, highs []time.Duration
	for _, name := range f.names() {
		e := f.writers[name]
		if len(e.tracks) == 0 && e.free.count == 0 {
			continue
		}
		i := e.Offset(at)
		if len(e.Contradictions()) > 0 {
			s.Contradicted = append(s.Contradicted, name)
		}
		if !i.Bounded() {
			s.Unbounded = append(s.Unbounded, name)
		}
		lows, highs = append(lows, i.Low), append(highs, i.High)
	}
	if len(lows) == 0 {
		return s
	}
	if top, bottom := slices.Max(lows), slices.Min(highs); top != NoLow && bottom != NoHigh && top > bottom {
		s.Proved = top - bottom
	}
	if len(s.Unbounded) == 0 {
		s.Guaranteed = slices.Max(highs) - slices.Min(lows)
	}
	return s
}

// Named is a contradiction and whose it is.
type Named struct {
	Writer string // empty where it is the server's
	Contradiction
}

// Contradictions lists those of all writers, by name. Steps that all writers made together, by the
// same amount, are the server's: one clock moved, not many.
func (f *Fleet) Contradictions() []Named {
	var all []Named
	for _, name := range f.names() {
		for _, c := range f.writers[name].Contradictions() {
			all = append(all, Named{name, c})
		}
	}
	var out []Named
	for len(all) > 0 {
		first := all[0]
		same, joint := f.together(all)
		if first.Kind != Step || !joint {
			out, all = append(out, first), all[1:]
			continue
		}
		out = append(out, Named{"", same})
		rest := all[:0]
		for _, n := range all {
			if !(n.Kind == Step && overlaps(n.Contradiction, same) && sameSize(n.By, same)) {
				rest = append(rest, n)
			}
		}
		all = rest
	}
	return out
}

// together follows the first step through the fleet: every writer seen before and after has to have
// made it, and at least two.
func (f *Fleet) together(all []Named) (Contradiction, bool) {
	joint, by := all[0].Contradiction, all[0].By
	made := map[string]bool{all[0].Writer: true}
	for _, n := range all[1:] {
		both := by.intersect(n.By)
		if n.Kind == Step && overlaps(n.Contradiction, joint) && !both.Empty() {
			by, made[n.Writer] = both, true
			joint.From, joint.Until = later(joint.From, n.From), earlier(joint.Until, n.Until)
		}
	}
	for name, e := range f.writers {
		if !made[name] && e.spans(all[0].From, all[0].Until) {
			return Contradiction{}, false
		}
	}
	joint.Kind, joint.By = ServerStepped, Interval{}.minus(by)
	return joint, len(made) > 1
}

// spans reports writes before and after.
func (e *Estimator) spans(from, until time.Time) bool {
	before, after := false, false
	for _, t := range e.tracks {
		before = before || t.first <= from.UnixNano()
		after = after || t.last >= until.UnixNano()
	}
	return before && after
}

func overlaps(a, b Contradiction) bool { return !a.From.After(b.Until) && !b.From.After(a.Until) }

// sameSize compares a client's step with the server's, which has the other sign.
func sameSize(by Interval, server Contradiction) bool {
	return !by.intersect(Interval{}.minus(server.By)).Empty()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
