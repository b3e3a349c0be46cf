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

// NewFleet starts without writers. ppm is the greatest rate error of the
// clients' clocks, in parts per million; zero means 500.
func NewFleet(ppm float64) (*Fleet, error) {
	probe, err := newEstimator(ppm)
	if err != nil {
		return nil, err
	}
	return &Fleet{ppm: probe.ppm, writers: map[string]*Estimator{}}, nil
}

// Writer returns the estimator of a writer, named by its address or anything
// that identifies it. It makes one on first use.
func (f *Fleet) Writer(name string) *Estimator {
	e, ok := f.writers[name]
	if !ok {
		e = &Estimator{ppm: f.ppm}
		f.writers[name] = e
	}
	return e
}

// Forget drops a writer, and what it proved, so that short connections cost no
// more memory than the caller allows.
func (f *Fleet) Forget(name string) { delete(f.writers, name) }

// names lists the writers' names, sorted.
func (f *Fleet) names() []string {
	out := make([]string, 0, len(f.writers))
	for name := range f.writers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Named is a contradiction and its writer.
type Named struct {
	Writer string // empty where it is the server's contradiction
	Contradiction
}

// Contradictions lists those of all writers, by name. Steps that all writers
// made together, by the same amount, are the server's: one clock moved, not
// many.
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

// together follows the first step through the fleet. It is joint if at least
// two writers made it, and every writer seen before and after did.
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
		if !made[name] && e.spans(all[0].between) {
			return Contradiction{}, false
		}
	}
	joint.Kind, joint.By = ServerStepped, Interval{}.minus(by)
	return joint, len(made) > 1
}

// spans reports whether writes were executed before and after.
func (e *Estimator) spans(between [2]int64) bool {
	before, after := false, false
	for _, t := range e.tracks {
		before = before || t.first <= between[0]
		after = after || t.last >= between[1]
	}
	return before && after
}

func overlaps(a, b Contradiction) bool { return !a.From.After(b.Until) && !b.From.After(a.Until) }

// sameSize compares a client's step with the server's, which has the other
// sign.
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
