// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/skew"
)

// Document is getsetlock.skew/1. Fields are null where the user did not ask for
// them.
type Document struct {
	Schema     string        `json:"schema"`
	TwoHolders bool          `json:"two_holders"` // the answer: two clients can hold at once
	Cause      string        `json:"cause"`       // skew, job, jump or none
	Protocol   string        `json:"protocol"`    // which clients take part, as asked
	Dialect    string        `json:"dialect"`     // of the old clients
	Lease      time.Duration `json:"lease_ms"`    // of the old clients
	// the distribution in words; null where holds were measured
	Job        string        `json:"job" answer:"null"`
	LongestJob time.Duration `json:"longest_job_ms"` // the longest job that the answer counts with
	Spread     time.Duration `json:"spread_ms"`      // how far the old clients' clocks are apart
	// how far the slowest old client's clock is behind the server's; null:
	// unknown
	Behind time.Duration `json:"behind_ms" answer:"claim"`
	// how far the fastest old client's clock is ahead of it; null: unknown
	Ahead time.Duration `json:"ahead_ms" answer:"claim"`
	// longest time from a clock reading to the execution of its write
	Delay  time.Duration `json:"delay_ms"`
	Preset string        `json:"preset" answer:"null"` // kind of clocks and pauses; null: none
	Seed   uint64        `json:"seed"`                 // of all random choices
	Law    lawDocument   `json:"law"`                  // what follows from the rules, without a simulation
	// null with sealed and modern, where no old client holds
	Simulation *simDocument   `json:"simulation"`
	Explore    *exploreResult `json:"explore"` // null where it was not asked for
}

type lawDocument struct {
	TwoHolders bool `json:"two_holders"` // two clients can hold at once
	// they can with no clock, job or pause at fault
	Unconditional bool          `json:"unconditional"`
	Overlap       time.Duration `json:"overlap_ms"` // the longest time for which two can hold
	// when a key is free after a crash, at the earliest; null: never
	RecoveryEarliest time.Duration `json:"recovery_earliest_ms"`
	Recovery         time.Duration `json:"recovery_ms"` // the same, at the latest
	// the longest job that keeps the lock safe; null: any
	LongestSafeJob time.Duration `json:"longest_safe_job_ms"`
	// the greatest spread that keeps it safe; null: any
	GreatestSafeSpread time.Duration `json:"greatest_safe_spread_ms"`
	// the longest lease of a getsetlock client in this fleet
	LongestLease time.Duration `json:"longest_lease_ms"`
	// share of the jobs that are longer, from 0 to 1
	JobsTooLong float64 `json:"jobs_too_long"`
}

func (a *skewAnswer) document() Document {
	v := a.verdict
	doc := Document{
		Schema: "getsetlock.skew/1", TwoHolders: a.twoHold(), Cause: a.cause, Protocol: a.protocol,
		Dialect: a.dialect.Name, Lease: a.law.Lease, LongestJob: a.law.Job, Spread: a.law.Spread,
		Behind: a.behind, Ahead: a.ahead, Delay: a.law.Delay, Seed: a.seed,
		Law: lawDocument{
			TwoHolders: v.Possible, Unconditional: v.Unconditional, Overlap: v.Overlap,
			RecoveryEarliest: v.Recovery.Earliest, Recovery: v.Recovery.Latest,
			LongestSafeJob: most(v.LongestJob), GreatestSafeSpread: most(v.GreatestSpread),
			LongestLease: most(v.LongestLease), JobsTooLong: a.tooLong(v.LongestJob),
		},
		Simulation: a.simDocument(),
		Explore:    a.explored.document(),
	}
	if a.preset != nil {
		doc.Preset = a.preset.Name
	}
	if a.holds == nil {
		doc.Job = a.job.String()
	}
	if v.Recovery.Never {
		doc.Law.RecoveryEarliest, doc.Law.Recovery = out.NoBound, out.NoBound
	}
	return doc
}

// most returns a limit's bound.
func most(l skew.Limit) time.Duration {
	if !l.Bounded {
		return out.NoBound
	}
	return l.Bound
}
