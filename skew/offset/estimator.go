package offset

import (
	"time"
)

// defaultRate is the greatest rate error assumed of a clock, in parts per
// million, where none is given: ntpd slews no faster. Free-running quartz stays
// below 30.
const defaultRate = 500

// Estimator bounds the offset of one writer's clock from the writes seen at one
// address. Its memory is constant. Its answers are intervals that hold while
// its assumptions do. Where the assumptions cannot all hold, it says so; see
// [Estimator.Contradictions].
//
// It assumes that the lease is right, that one process writes, and that neither
// its clock nor the server's stepped. It also assumes that the clock's rate
// error stays within the given one, and that the clock never ran backwards.
//
// HAZARD: a greater rate error (chrony may slew by 83,333 ppm) moves the clock
// out of an interval. Until the next write no contradiction shows it.
type Estimator struct {
	ppm     float64
	tracks  []*track // in the order of their first write; more than one only after a contradiction
	dropped int      // number of tracks that were dropped to save memory
	runs    []run
	free    track // bounds that do not depend on a lease, since the newest track began
	backs   []Contradiction
}

// run is a row of writes that all fit one track.
type run struct {
	track *track
	last  int64
	count int // number of its writes
}

const (
	mostTracks = 8
	mostRuns   = 64
)

// newEstimator starts without knowledge. ppm is the greatest rate error of the
// client's clock against the server's, in parts per million; zero means
// defaultRate.
func newEstimator(ppm float64) (*Estimator, error) {
	if ppm == 0 {
		ppm = defaultRate
	}
	if !(ppm > 0 && ppm <= 500_000) {
		return nil, impossible("ppm", ppm, "more than 0 and at most 500000")
	}
	return &Estimator{ppm: ppm}, nil
}

// Stamp adds a write. It fails with a *skew.ParameterError, and then adds
// nothing.
func (e *Estimator) Stamp(s Stamped) error {
	if err := s.valid(); err != nil {
		return err
	}
	low := s.low()
	var high *bound
	if b, ok := s.high(); ok {
		high = &b
	}
	if high != nil && high.offset < low.offset {
		// By the server's clock the write came before the previous command and
		// the sleep.
		e.wentBack(s, low.offset-high.offset)
		return nil
	}
	var fitting []*track
	for _, t := range e.tracks {
		if t.fits(e.ppm, &low, high) {
			fitting = append(fitting, t)
		}
	}
	switch len(fitting) {
	case 0:
		e.begin(s.Key, low, high)
	case 1:
		e.extend(fitting[0], s.Key, low, high)
	}
	// A write that fits two clocks does not count for either: it may be the
	// other's.
	return nil
}

func (e *Estimator) extend(t *track, key string, low bound, high *bound) {
	t.addLow(e.ppm, low)
	if high != nil {
		t.addHigh(e.ppm, *high)
	}
	t.count++
	t.last = max(t.last, low.at)
	t.keys.add(key)
	if n := len(e.runs); n > 0 && e.runs[n-1].track == t {
		e.runs[n-1].last = t.last
		e.runs[n-1].count++
		return
	}
	if len(e.runs) == mostRuns {
		e.runs = append(e.runs[:0], e.runs[1:]...)
	}
	e.runs = append(e.runs, run{t, low.at, 1})
}

// begin starts a new track. If the lower bound contradicts the old tracks, the
// server may have stepped. Then the upper bound may be measured from before
// that step, and is left out.
func (e *Estimator) begin(key string, low bound, high *bound) {
	var broke int64
	if len(e.tracks) > 0 {
		broke = e.newest().broken(e.ppm, &low, high)
		if !e.newest().fits(e.ppm, &low, nil) {
			high = nil
		}
	}
	if len(e.tracks) == mostTracks {
		e.forget()
	}
	t := &track{first: low.at, last: low.at, after: broke}
	e.tracks = append(e.tracks, t)
	e.free = track{}
	e.extend(t, key, low, high)
}

// forget drops the track whose last write is oldest.
func (e *Estimator) forget() {
	oldest := 0
	for i, t := range e.tracks {
		if t.last < e.tracks[oldest].last {
			oldest = i
		}
	}
	gone := e.tracks[oldest]
	e.tracks = append(e.tracks[:oldest], e.tracks[oldest+1:]...)
	e.dropped++
	kept := e.runs[:0]
	for _, r := range e.runs {
		if r.track != gone {
			kept = append(kept, r)
		}
	}
	e.runs = kept
}

func (e *Estimator) wentBack(s Stamped, by time.Duration) {
	if len(e.backs) == mostTracks {
		e.backs = append(e.backs[:0], e.backs[1:]...)
		e.dropped++
	}
	e.backs = append(e.backs, Contradiction{
		Kind: ServerStepped, From: s.At.UTC(), Until: s.Prev.UTC(), By: Interval{NoLow, -by},
	})
}

// Judge adds what the client's own decision about a stamp shows of its clock.
// It fails with a *skew.ParameterError, and then adds nothing.
func (e *Estimator) Judge(j Judged) error {
	if err := j.valid(); err != nil {
		return err
	}
	b := j.bound()
	if e.free.count == 0 {
		e.free.first = b.at
	}
	low, high := &b, (*bound)(nil)
	if !j.Expired {
		low, high = nil, &b
	}
	if !e.free.fits(e.ppm, low, high) {
		// Its own judgements disagree: the clock stepped, and the stamps will
		// show that.
		e.free = track{first: b.at}
	}
	if low != nil {
		e.free.addLow(e.ppm, b)
	} else {
		e.free.addHigh(e.ppm, b)
	}
	e.free.count++
	e.free.last = max(e.free.last, b.at)
	return nil
}

// Writes returns how many writes count; those that fitted two clocks do not.
func (e *Estimator) Writes() int {
	n := 0
	for _, t := range e.tracks {
		n += t.count
	}
	return n
}

// Offset returns what is known of the writer's offset at an instant of the
// server's clock; before the first write, only what judgements show. After a
// step it is that of the clock since. Where two clocks alternate it is the
// interval around all of them.
func (e *Estimator) Offset(at time.Time) Interval {
	if len(e.tracks) == 0 {
		return e.free.at(e.ppm, at.UnixNano())
	}
	out := e.newest().at(e.ppm, at.UnixNano())
	for _, t := range e.tracks {
		if e.runsOf(t) > 1 {
			out = out.hull(t.at(e.ppm, at.UnixNano()))
		}
	}
	if both := out.intersect(e.free.at(e.ppm, at.UnixNano())); !both.Empty() {
		return both
	}
	return out
}

// Line returns the same for a clock that ran at one rate since its last step.
// It is much narrower over a window of minutes, and it has the rate. ok is
// false where no such clock fits, or where an end is missing.
//
// HAZARD: a clock under ntpd or chrony changes its rate all the time. Between
// and beyond the writes, a line is right only for a clock that does not.
func (e *Estimator) Line(at time.Time) (line Line, ok bool) {
	if len(e.tracks) == 0 {
		return Line{}, false
	}
	return e.newest().line(e.ppm, at.UnixNano())
}

// newest returns the track of the last write that counted.
func (e *Estimator) newest() *track {
	return e.runs[len(e.runs)-1].track
}

// runsOf counts the runs of a track. A late write between two of them does not
// separate them.
func (e *Estimator) runsOf(t *track) int {
	n := 0
	for _, r := range e.lasting() {
		if r.track == t {
			n++
		}
	}
	return n
}
