// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func TestDoubleGrantOfJedisUUIDNeedsNoSkew(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.Lease, s.Job, s.Latency = dialect.JedisUUID(), 10*sec, mustParse(t, "exp:500ms"),
		mustParse(t, "exp:2ms")
	s.For = less(30 * day)
	r := mustSimulate(t, s)
	if r.Causes.Protocol == 0 || r.Causes.Main() != CauseProtocol {
		t.Errorf("got %+v", r)
	}
	s.Dialect = dialect.Jedis()
	if r := mustSimulate(t, s); r.Causes.Protocol > 0 {
		t.Errorf("Jedis: %+v", r)
	}
}

// SET NX EX 3 with a job of 7 s: the first late DEL frees the second client's
// key, and so on.
func TestOneOverrunCausesChainOfEntries(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.Lease, s.Job, s.Clients, s.Acquisitions = dialect.SetDel(), 3*sec, constantly(7*sec), 5, 500
	r := mustSimulate(t, s)
	if r.LongestChain < 3 || r.MostHolders < 3 || r.Causes.Main() != CauseJob ||
		r.Causes.Skew+r.Causes.Jump+r.Causes.Protocol > 0 {
		t.Errorf("got %+v", r)
	}
}

func TestCauseIsSkewForShortJobsAndClocksApart(t *testing.T) {
	s := plainFleet()
	s.Lease, s.Job, s.Acquisitions = sec, constantly(600*ms), 2000
	s.Offsets = []time.Duration{0, 700 * ms}
	if r := mustSimulate(t, s); r.Causes.Main() != CauseSkew || r.Causes.Job > 0 || r.Causes.Jump > 0 {
		t.Errorf("apart: %+v", r)
	}
	s.Offsets = []time.Duration{-700 * ms, 0, 0, 0}
	if r := mustSimulate(t, s); r.Causes.Main() != CauseSkew || r.Causes.Job > 0 || r.Causes.Jump > 0 {
		t.Errorf("one behind: %+v", r)
	}
	s.Offsets = nil
	if r := mustSimulate(t, s); r.Episodes > 0 {
		t.Errorf("together: %+v", r)
	}
	s.Job = constantly(1500 * ms)
	if r := mustSimulate(t, s); r.Causes.Main() != CauseJob || r.Causes.Skew+r.Causes.Jump > 0 {
		t.Errorf("long jobs: %+v", r)
	}
}

// The clocks agree, except for steps of 1.9 s back and forth. Only an entry
// right after a step is a jump.
func TestCauseIsJumpRightAfterStep(t *testing.T) {
	var jumps int64
	for seed := range uint64(10) {
		s := plainFleet()
		s.Lease, s.Job, s.Rest, s.Clients, s.Acquisitions, s.Seed = 2*sec, constantly(1500*ms),
			mustParse(t, "exp:1s"), 3, 3000, seed
		s.Clocks = Clocks{Step: Steps{Kind: StepInward, By: 1900 * ms, Every: time.Hour}}
		r := mustSimulate(t, s)
		jumps += r.Causes.Jump
		if r.Causes.Job+r.Causes.Protocol > 0 {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
	if jumps < 5 {
		t.Errorf("%d jumps in ten runs", jumps)
	}
}

func TestPausesOfAHolderCountAsLongJobs(t *testing.T) {
	p, err := Lookup("vm-pause")
	if err != nil {
		t.Fatal(err)
	}
	s := plainFleet()
	s.Lease, s.Job, s.Clocks, s.Acquisitions, s.For = 3*sec, constantly(500*ms), p.Clocks, 0, less(20*day)
	s.Rest = constantly(sec)
	r := mustSimulate(t, s)
	if r.Causes.Job == 0 || r.Causes.Skew+r.Causes.Jump > 0 {
		t.Errorf("got %+v", r)
	}
}

func TestClientsGiveUpAfterTheirDialectsWait(t *testing.T) {
	s := plainFleet()
	s.Clients, s.Job, s.Acquisitions = 2, constantly(40*sec), 50
	r := mustSimulate(t, s)
	if r.GaveUp < 40 || r.WaitP99 > 11*sec {
		t.Errorf("Jedis waits 10 s: %+v", r)
	}
}
