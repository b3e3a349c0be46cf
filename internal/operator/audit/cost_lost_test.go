package audit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sample is one reading: the operations that the clients have done, and the
// processor time that the watch has used.
type sample struct {
	at, own time.Duration
	done    int64
}

// A machine shared with other work changes its speed all the time, over all
// spans alike: slices of a second differ as much as slices of a hundredth. It
// helps to compare neighbours, and to do it often. A watch sleeps most of the
// time. So each moment of work, with the slices around it in which the server
// still works for the watch, is compared with the time just before and just
// after.
const (
	sampleEvery = 4 * time.Millisecond
	around      = 3  // slices on either side of one in which the watch ran
	nextTo      = 10 // slices on either side of a moment that it is compared with
)

// moment is a row of slices, [from, to), and the time that the clients lost in
// it.
type moment struct {
	from, to int
	lost     time.Duration // time that the clients lost within it
}

// moments returns the moments in which the watch worked, and control moments
// half way between two of them, which should lose nothing. If a moment has
// quiet time on one side only, it is compared with that side; if it has none,
// all of it counts as lost.
func moments(samples []sample) (watched, idle []moment) {
	n := len(samples) - 1
	busy := make([]bool, n)
	for i := range n {
		if samples[i+1].own > samples[i].own {
			for j := max(0, i-around); j <= min(n-1, i+around); j++ {
				busy[j] = true
			}
		}
	}
	for i := 0; i < n; i++ {
		if !busy[i] {
			continue
		}
		m := moment{from: i}
		for ; i < n && busy[i]; i++ {
		}
		m.to = i
		if k := len(watched); k > 0 {
			long, middle := m.to-m.from, (watched[k-1].to+m.from)/2
			other := moment{from: middle - long/2, to: middle - long/2 + long}
			if other.from-nextTo >= watched[k-1].to && other.to+nextTo <= m.from {
				idle = append(idle, other)
			}
		}
		watched = append(watched, m)
	}
	for _, all := range [][]moment{watched, idle} {
		for i := range all {
			all[i].lost = all[i].compare(samples, busy)
		}
	}
	return watched, idle
}

// compare returns how much of the moment the clients lost, judged by their pace
// just before and after it.
func (m moment) compare(samples []sample, busy []bool) time.Duration {
	var done int64
	var span time.Duration
	add := func(i int) bool {
		if i < 0 || i >= len(busy) || busy[i] {
			return false
		}
		done += samples[i+1].done - samples[i].done
		span += samples[i+1].at - samples[i].at
		return true
	}
	for k := 1; k <= nextTo && add(m.from-k); k++ {
	}
	for k := 0; k < nextTo && add(m.to+k); k++ {
	}
	long := samples[m.to].at - samples[m.from].at
	if done == 0 {
		return long
	}
	return long - time.Duration(float64(samples[m.to].done-samples[m.from].done)*float64(span)/float64(done))
}

// lostOf returns the share of all time that the moments lost, in percent, and
// its 95 % interval by bootstrap: the middle 95 % of two thousand resamplings
// of the moments.
func lostOf(all []moment, count int, total time.Duration) (percent, low, high float64) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	scale := 100 * float64(count) / float64(len(all)) / float64(total)
	sum := func(pick func(i int) int) (s float64) {
		for i := range all {
			s += float64(all[pick(i)].lost)
		}
		return s * scale
	}
	draws := rand.New(rand.NewPCG(1, 2))
	var drawn []float64
	for range 2000 {
		drawn = append(drawn, sum(func(int) int { return draws.IntN(len(all)) }))
	}
	slices.Sort(drawn)
	return sum(func(i int) int { return i }), drawn[49], drawn[1950]
}

// The clients' pace wanders by a tenth from slice to slice and as much over
// seconds. The watch takes a known share: ten moments a second of one slice
// each, in which the clients do that much less.
func TestLostTimeIsMeasuredThroughNoise(t *testing.T) {
	for _, takes := range []float64{0, 0.1, 0.5} {
		random := rand.New(rand.NewPCG(7, uint64(takes*10)))
		var samples []sample
		var s sample
		slow := 0.0
		for i := range 15000 {
			samples = append(samples, s)
			slow = 0.999*slow + 0.0045*random.NormFloat64()
			done := 1000 * (1 + slow + 0.1*random.NormFloat64())
			if i%25 == 0 {
				done *= 1 - takes
				s.own += time.Millisecond
			}
			s.at, s.done = s.at+sampleEvery, s.done+int64(done)
		}
		watched, idle := moments(samples)
		lost, low, high := lostOf(watched, len(watched), s.at)
		want := 100 * takes / 25
		if low > want || high < want || high-low > 1 || lost < low || lost > high {
			t.Errorf("%.2f %% were taken, measured %.2f (%.2f to %.2f)", want, lost, low, high)
		}
		if nothing, low, high := lostOf(idle, len(watched), s.at); low > 0 || high < 0 {
			t.Errorf("where nothing was taken, measured %.2f (%.2f to %.2f)", nothing, low, high)
		}
	}
}

func TestTouchingMomentsAreMerged(t *testing.T) {
	var samples []sample
	// the watch runs in slices 4 and 8
	own := []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}
	for i, o := range own {
		samples = append(samples, sample{
			at: time.Duration(i) * time.Millisecond, own: time.Duration(o), done: int64(10 * i)})
	}
	watched, idle := moments(samples)
	if len(watched) != 1 || watched[0].from != 1 || watched[0].to != 12 || watched[0].lost != 0 ||
		len(idle) != 0 {
		t.Errorf("%+v, %+v", watched, idle)
	}
	samples[6].done = samples[5].done // a slice of the eleven is lost
	for i := 7; i < len(samples); i++ {
		samples[i].done -= 10
	}
	if watched, _ := moments(samples); watched[0].lost != time.Millisecond {
		t.Errorf("%v is lost", watched[0].lost)
	}
}
