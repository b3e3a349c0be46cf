// SPDX-License-Identifier: Apache-2.0

package tick_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// newClient is a Client with a TTL of 30 s, in the world's time.
func newClient(t *testing.T, w *redistest.World) *lock.Client {
	t.Helper()
	backend, err := modern.New(w.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{TTL: 30 * time.Second, Clock: w.Clock(redistest.Skew{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// The last machine starts as late as the spread says, after the first has done
// the job. At the next tick it may be the first.
func TestJobRunsOnceATick(t *testing.T) {
	w := redistest.New(t)
	cfg := tick.Config{Period: time.Minute, Spread: 10 * time.Second}
	var machines []*tick.Jobs
	for range 3 {
		jobs, err := tick.New(newClient(t, w), "once", cfg)
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, jobs)
	}
	runs := 0
	job := func(context.Context) error { runs++; return nil }
	for n := range 3 {
		for i := range machines {
			err := machines[(n+i)%3].Do(t.Context(), "report", job)
			if i > 0 && !errors.Is(err, lock.ErrHeld) || i == 0 && err != nil {
				t.Errorf("tick %d, machine %d: %v", n, i, err)
			}
			w.Pass(5 * time.Second)
		}
		w.Pass(cfg.Period - cfg.Spread - 15*time.Second) // the fastest clock is first again
	}
	if runs != 3 {
		t.Errorf("%d runs at 3 ticks", runs)
	}
}

func TestTimesThatDoNotFitAreRefused(t *testing.T) {
	w := redistest.New(t)
	for name, c := range map[string]struct {
		period, spread, floor time.Duration
		says                  string
	}{
		"no spread": {time.Minute, 0, 0, "the spread is 0s"},
		"floor above period": {time.Second, time.Millisecond, time.Minute,
			"Config.Floor (1m0s) must be shorter than Config.Period (1s)"},
		"floor below spread": {time.Minute, 9 * time.Second, time.Second,
			"Config.Floor (1s) must not be shorter than Config.Spread (9s)"},
		"floor, no spread":    {time.Minute, 0, time.Second, "which must be positive"},
		"TTL below the floor": {time.Hour, time.Minute, 0, "Config.TTL (30s)"},
	} {
		cfg := tick.Config{Period: c.period, Spread: c.spread, Floor: c.floor}
		_, err := tick.New(newClient(t, w), "times", cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "times: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTwoFrameworksShareNoKeys(t *testing.T) {
	w := redistest.New(t)
	cfg := tick.Config{Period: time.Minute, Spread: time.Second}
	open := func(framework, prefix string) error {
		cfg.Prefix = prefix
		_, err := tick.New(newClient(t, w), framework, cfg)
		return err
	}
	if err := errors.Join(open("gocron", ""), open("gocron", ""), open("cron", "")); err != nil {
		t.Fatal(err)
	}
	err := open("cron", "gocron:")
	if err == nil || !strings.Contains(err.Error(), `the keys of gocron begin with "gocron:" already`) {
		t.Errorf("two frameworks with one prefix: %v", err)
	}
}
