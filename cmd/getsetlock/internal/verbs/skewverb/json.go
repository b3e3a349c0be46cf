package skewverb

import (
	"encoding/json"
	"strconv"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/skew"
)

// Document is getsetlock.skew/1. Fields are null where the user did not ask for
// them.
type Document struct {
	Schema       string         `json:"schema"`
	TwoHolders   bool           `json:"two_holders"`
	Cause        string         `json:"cause"`
	Protocol     string         `json:"protocol"`
	Dialect      string         `json:"dialect"`
	LeaseMS      json.Number    `json:"lease_ms"`
	Job          *string        `json:"job"`
	LongestJobMS json.Number    `json:"longest_job_ms"`
	SpreadMS     json.Number    `json:"spread_ms"`
	BehindMS     *json.Number   `json:"behind_ms"` // null: unknown
	AheadMS      *json.Number   `json:"ahead_ms"`
	DelayMS      json.Number    `json:"delay_ms"`
	Preset       *string        `json:"preset"`
	Seed         uint64         `json:"seed"`
	Law          lawDocument    `json:"law"`
	Simulation   *simDocument   `json:"simulation"`
	Explore      *exploreResult `json:"explore"`
}

type lawDocument struct {
	TwoHolders           bool         `json:"two_holders"`
	Unconditional        bool         `json:"unconditional"`
	OverlapMS            json.Number  `json:"overlap_ms"`
	RecoveryEarliestMS   *json.Number `json:"recovery_earliest_ms"`
	RecoveryMS           *json.Number `json:"recovery_ms"` // the latest
	LongestSafeJobMS     *json.Number `json:"longest_safe_job_ms"`
	GreatestSafeSpreadMS *json.Number `json:"greatest_safe_spread_ms"`
	LongestLeaseMS       *json.Number `json:"longest_lease_ms"` // longest getsetlock lease next to this fleet
	JobsTooLong          json.Number  `json:"jobs_too_long"`    // share from 0 to 1
}

func (a *skewAnswer) document() Document {
	v := a.verdict
	doc := Document{
		Schema: "getsetlock.skew/1", TwoHolders: a.twoHold(), Cause: a.cause, Protocol: a.protocol,
		Dialect: a.dialect.Name,
		LeaseMS: out.Millis(a.law.Lease), LongestJobMS: out.Millis(a.law.Job),
		SpreadMS: out.Millis(a.law.Spread), BehindMS: out.ClaimMillis(a.behind),
		AheadMS: out.ClaimMillis(a.ahead), DelayMS: out.Millis(a.law.Delay), Seed: a.seed,
		Law: lawDocument{
			TwoHolders: v.Possible, Unconditional: v.Unconditional, OverlapMS: out.Millis(a.verdict.Overlap),
			LongestSafeJobMS: limitMS(v.LongestJob), GreatestSafeSpreadMS: limitMS(v.GreatestSpread),
			LongestLeaseMS: limitMS(v.LongestLease),
			JobsTooLong:    json.Number(strconv.FormatFloat(a.tooLong(v.LongestJob), 'f', -1, 64)),
		},
		Simulation: a.simDocument(),
		Explore:    a.explored.document(),
	}
	if a.preset != nil {
		doc.Preset = &a.preset.Name
	}
	if a.holds == nil {
		text := a.job.String()
		doc.Job = &text
	}
	if !v.Recovery.Never {
		doc.Law.RecoveryEarliestMS, doc.Law.RecoveryMS = new(out.Millis(v.Recovery.Earliest)),
			new(out.Millis(v.Recovery.Latest))
	}
	return doc
}

func limitMS(l skew.Limit) *json.Number {
	if !l.Bounded {
		return nil
	}
	return new(out.Millis(l.Bound))
}
