// SPDX-License-Identifier: Apache-2.0

package clocks_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/lock"
)

type wall struct{ now time.Time }

func (w *wall) Now() time.Time                       { return w.now }
func (w *wall) After(time.Duration) <-chan time.Time { return nil }

type whole struct {
	wall
	elapsed time.Duration
}

func (w *whole) Elapsed() time.Duration        { return w.elapsed }
func (w *whole) Boot() (string, time.Duration) { return "id", time.Hour }

func TestClockWithoutElapsedUsesItsWallClock(t *testing.T) {
	w := &wall{time.Unix(1000, 0)}
	c := clocks.New(w)
	then := c.Moment()
	w.now = w.now.Add(time.Minute)
	if id, up := c.Boot(); id != "" || up != 0 {
		t.Errorf("booted as %q, up %v", id, up)
	}
	if c.Elapsed() != time.Minute || c.Since(then) != time.Minute {
		t.Errorf("elapsed %v, since %v", c.Elapsed(), c.Since(then))
	}
}

// The machine was suspended, or a human set its wall clock back.
func TestSinceIsTheGreaterOfBothTimes(t *testing.T) {
	for name, went := range map[string][2]time.Duration{
		"suspended": {time.Hour, time.Second},
		"set back":  {-time.Minute, time.Hour},
	} {
		w := &whole{wall: wall{time.Unix(1000, 0)}, elapsed: time.Second}
		c := clocks.New(w)
		then := c.Moment()
		w.now, w.elapsed = w.now.Add(went[0]), w.elapsed+went[1]
		if got := c.Since(then); got != time.Hour {
			t.Errorf("%s: %v", name, got)
		}
		if id, up := c.Boot(); id != "id" || up != time.Hour {
			t.Errorf("booted as %q, up %v", id, up)
		}
	}
}

func TestNilClockIsTheMachines(t *testing.T) {
	if c := clocks.New(nil); c.Clock != lock.Machine {
		t.Errorf("%v", c.Clock)
	}
}
