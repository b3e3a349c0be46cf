package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/interop"
)

// besideJars returns the scenario that shows who gets the key when old clients
// poll for it and getsetlock processes are woken. Four of each take it
// repeatedly for a millisecond and ask again at once. The getsetlock processes
// run with their defaults, and without politeness.
func besideJars() Scenario {
	const each = 4
	return Scenario{
		Name: "jars", Title: "one key, 4 Java clients (jedis-lock 1.0.0, which polls) and 4 getsetlock processes, held for 1 ms",
		Adapters: []string{Hardened, Impolite}, Rounds: 3,
		Metrics: []Metric{
			{Name: "ours_percent", Head: "getsetlock %"}, {Name: "ours_per_s", Head: "getsetlock/s"},
			{Name: "others_per_s", Head: "Java/s"},
			{Name: "ours_least", Head: "fewest, getsetlock"}, {Name: "others_least", Head: "fewest, Java"},
			{Name: "ours_wait_ms_max", Head: "longest ms, getsetlock"},
			{Name: "others_wait_ms_max", Head: "longest ms, Java"},
			{Name: "overlaps", Head: "overlaps"}, {Name: "commands", Head: "commands"},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			j, err := interop.Start(ctx, interop.Options{Jar: jar()})
			if err != nil {
				return nil, fmt.Errorf("the Java side (make prepare builds it): %w", err)
			}
			defer j.Close()
			fleet := &jarFleet{jvm: j, addr: r.Addr, size: each}
			return r.Beside(ctx, a, each, Spec{Hold: time.Millisecond, Window: 6 * time.Second}, fleet)
		},
	}
}

// jarFleet is Java clients that take one key repeatedly.
type jarFleet struct {
	jvm   *interop.JVM
	addr  string
	size  int
	loops []*interop.Loop
}

func (f *jarFleet) Start(ctx context.Context, key string) error {
	for i := range f.size {
		c, err := f.jvm.Client(ctx, fmt.Sprintf("jar%d", i), f.addr)
		if err != nil {
			return err
		}
		if err := c.Lock(ctx, interop.Jar, key, 2*time.Minute, time.Minute); err != nil {
			return err
		}
		l, err := c.StartLoop(ctx, key+":counter", time.Millisecond, 0)
		if err != nil {
			return err
		}
		f.loops = append(f.loops, l)
	}
	_, err := f.loops[0].Reach(ctx, 20) // by then the JVM has loaded its classes
	return err
}

func (f *jarFleet) Stop(ctx context.Context) ([][]Turn, error) {
	var all [][]Turn
	var failed error
	for _, l := range f.loops {
		failed = errors.Join(failed, l.Stop(ctx))
	}
	for _, l := range f.loops {
		_, err := l.Wait(ctx)
		spans, spansErr := l.Spans(ctx)
		failed = errors.Join(failed, err, spansErr)
		turns := make([]Turn, 0, len(spans))
		for s := range slices.Values(spans) {
			turns = append(turns, Turn{
				Asked: s.Asked * 1000, Acquired: s.Held * 1000, Released: s.Released * 1000})
		}
		all = append(all, turns)
	}
	return all, failed
}
