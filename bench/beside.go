package main

import (
	"context"
	"slices"
	"time"
)

// Others take one key at the same time as the processes of an adapter, with a
// lock for which there is no adapter.
type Others interface {
	// Start begins to take key repeatedly.
	Start(ctx context.Context, key string) error

	// Stop ends that and returns each of the others' turns.
	Stop(ctx context.Context) ([][]Turn, error)
}

// Turn is one acquisition by one of the others, in ns of the wall clock.
type Turn struct{ Asked, Acquired, Released int64 }

// Beside measures n processes of an adapter, with one goroutine each, which
// take one key repeatedly while others do the same. Turns count that began
// within the window.
func (r *Runner) Beside(ctx context.Context, a Adapter, n int, s Spec, others Others) (Figures, error) {
	s.Goroutines, s.Keys, s.Spans = 1, 1, true
	s = r.spec(s, "loop", a)
	if err := others.Start(ctx, a.key(s.name(0))); err != nil {
		return nil, err
	}
	var begun time.Time
	all, err := together(ctx, r.Child, func() { begun = time.Now() }, slices.Repeat([]Spec{s}, n)...)
	theirs, stopErr := others.Stop(ctx)
	if err != nil {
		return nil, err
	}
	if stopErr != nil {
		return nil, stopErr
	}
	from, to := begun.UnixNano(), begun.Add(s.Window).UnixNano()
	var spans []span
	var had, old []int
	var waited, oldWaited time.Duration
	for _, res := range all {
		if r.first == "" {
			r.first = res.Failure
		}
		had = append(had, int(res.total()))
		waited = max(waited, res.WaitMax)
		spans = append(spans, res.Spans...)
	}
	for _, turns := range theirs {
		count := 0
		for _, t := range turns {
			if t.Released > from && t.Asked < to {
				oldWaited = max(oldWaited, time.Duration(min(t.Acquired, to)-max(t.Asked, from)))
			}
			if t.Acquired >= from && t.Acquired < to {
				count++
				spans = append(spans, span{Acquired: t.Acquired, Released: t.Released})
			}
		}
		old = append(old, count)
	}
	sum, oldSum := float64(add(had)), float64(add(old))
	_, overlaps := gaps(spans)
	return Figures{
		"ours_per_s": sum / s.Window.Seconds(), "others_per_s": oldSum / s.Window.Seconds(),
		"ours_percent": 100 * sum / max(sum+oldSum, 1),
		"ours_least":   float64(slices.Min(had)), "others_least": float64(slices.Min(old)),
		"ours_wait_ms_max": millis(waited), "others_wait_ms_max": millis(oldWaited),
		"overlaps":   float64(overlaps),
		acquisitions: sum + oldSum,
	}, nil
}

func add(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
