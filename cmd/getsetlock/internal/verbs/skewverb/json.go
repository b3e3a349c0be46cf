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
	Schema     string         `json:"schema"`
	TwoHolders bool           `json:"two_holders"`
	Cause      string         `json:"cause"`
	Protocol   string         `json:"protocol"`
	Dialect    string         `json:"dialect"`
	Lease      time.Duration  `json:"lease_ms"`
	Job        string         `json:"job" answer:"null"`
	LongestJob time.Duration  `json:"longest_job_ms"`
	Spread     time.Duration  `json:"spread_ms"`
	Behind     time.Duration  `json:"behind_ms" answer:"claim"` // null: unknown
	Ahead      time.Duration  `json:"ahead_ms" answer:"claim"`
	Delay      time.Duration  `json:"delay_ms"`
	Preset     string         `json:"preset" answer:"null"`
	Seed       uint64         `json:"seed"`
	Law        lawDocument    `json:"law"`
	Simulation *simDocument   `json:"simulation"`
	Explore    *exploreResult `json:"explore"`
}

type lawDocument struct {
	TwoHolders         bool          `json:"two_holders"`
	Unconditional      bool          `json:"unconditional"`
	Overlap            time.Duration `json:"overlap_ms"`
	RecoveryEarliest   time.Duration `json:"recovery_earliest_ms"`
	Recovery           time.Duration `json:"recovery_ms"` // the latest
	LongestSafeJob     time.Duration `json:"longest_safe_job_ms"`
	GreatestSafeSpread time.Duration `json:"greatest_safe_spread_ms"`
	LongestLease       time.Duration `json:"longest_lease_ms"` // longest getsetlock lease next to this fleet
	JobsTooLong        float64       `json:"jobs_too_long"`    // share from 0 to 1
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
