// SPDX-License-Identifier: Apache-2.0

//go:build real

// Package spec_test asks TLC, the model checker of TLA+, the same questions as
// package model.
package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/proof/internal/model"
	"github.com/getsetlock/getsetlock/skew"
)

// fleet is one question: the constants of Verbatim.tla.
type fleet struct {
	n, lease, job, delay, ahead int
	wins                        string
	orMine, anew                bool
	horizon                     int // 0: long enough for any trace of two clients
}

func (f fleet) String() string {
	return fmt.Sprintf(
		"%d clients, lease %d, job %d, delay %d, ahead %d, %s wins, or mine %v, stamped anew %v",
		f.n, f.lease, f.job, f.delay, f.ahead, f.wins, f.orMine, f.anew)
}

// exclusive asks TLC whether Exclusion holds.
func (f fleet) exclusive(t *testing.T) bool {
	t.Helper()
	horizon := f.horizon
	if horizon == 0 {
		horizon = f.lease + f.job + f.delay + 2
	}
	word := map[bool]string{true: "TRUE", false: "FALSE"}
	config := fmt.Sprintf("SPECIFICATION Spec\nINVARIANT Exclusion\nCONSTANTS\n N = %d\n Lease = %d\n Job = %d\n Delay = %d\n Ahead = %d\n Wins = %q\n OrMine = %s\n Anew = %s\n Horizon = %d\n",
		f.n, f.lease, f.job, f.delay, f.ahead, f.wins, word[f.orMine], word[f.anew], horizon)
	out := module{files: []string{"Verbatim.tla"}, name: "Verbatim",
		text: map[string]string{"Verbatim.cfg": config}}.check(t)
	switch {
	case strings.Contains(out, "No error has been found"):
		return true
	case strings.Contains(out, "Invariant Exclusion is violated"):
		return false
	}
	t.Fatalf("%s:\n%s", f, out)
	return false
}

// Three separate descriptions of one lock must give the same answer for every
// fleet.
func TestSpecificationAgreesWithTheLawAndTheExplorer(t *testing.T) {
	for _, f := range []fleet{
		{n: 2, lease: 2, job: 3}, {n: 2, lease: 2, job: 4},
		{n: 2, lease: 2, job: 1, delay: 2}, {n: 2, lease: 2, job: 2, delay: 2},
		{n: 2, lease: 3, job: 2, ahead: 2}, {n: 2, lease: 3, job: 3, ahead: 2},
		{n: 2, lease: 1, job: 1, ahead: 4},
		{n: 3, lease: 1, job: 1, delay: 2, horizon: 4},
	} {
		f.wins = "same"
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			const u = time.Millisecond
			d := dialect.Jedis()
			v, err := skew.Law{
				Dialect: d, Lease: time.Duration(f.lease) * u, Job: time.Duration(f.job) * u,
				Delay: time.Duration(f.delay) * u, Spread: time.Duration(f.ahead) * u,
			}.Verdict()
			if err != nil {
				t.Fatal(err)
			}
			x, err := model.Explore(model.Scenario{Olds: model.Olds{
				Dialect: d, Old: f.n, Lease: f.lease, Job: f.job, Gap: f.delay, Ahead: f.ahead}})
			if err != nil {
				t.Fatal(err)
			}
			if safe := f.exclusive(t); safe == v.Possible || safe != x.Safe() {
				t.Errorf("TLC: safe %v; the law: %v; the explorer: %v", safe, !v.Possible, x.Safe())
			}
		})
	}
}

// The effect of a wrong model, and of the later class.
func TestSpecificationFallsWhereItsRulesAreChanged(t *testing.T) {
	for _, c := range []struct {
		why  string
		f    fleet
		safe bool
	}{
		{"a late command with an old stamp lets two in",
			fleet{n: 2, lease: 2, job: 2, delay: 2, wins: "same"}, false},
		{"a model that stamps when the command executes does not see it",
			fleet{n: 2, lease: 2, job: 2, delay: 2, wins: "same", anew: true}, true},
		{"expired or mine grants twice with nothing at fault",
			fleet{n: 2, lease: 3, job: 1, wins: "same", orMine: true}, false},
		{"the page's winning rule alone does not", fleet{n: 2, lease: 2, job: 1, wins: "expired"}, true},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			if safe := c.f.exclusive(t); safe != c.safe {
				t.Errorf("%s: TLC says safe %v", c.f, safe)
			}
		})
	}
}
