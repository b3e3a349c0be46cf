package skewverb

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// QuorumDocument is getsetlock.skew-quorum/1. Fields are null where the user
// did not ask for them.
type QuorumDocument struct {
	Schema        string         `json:"schema"`
	TwoHolders    bool           `json:"two_holders"`
	Members       int            `json:"members"`
	Votes         int            `json:"votes"` // the holder's
	Lost          int            `json:"lost"`
	Restarted     int            `json:"restarted"`
	RestartedWait bool           `json:"restarted_wait"`
	Jumped        int            `json:"jumped"`
	JumpByMS      *json.Number   `json:"jump_by_ms"`
	LeaseMS       json.Number    `json:"lease_ms"`
	Job           *string        `json:"job"`
	EveryMS       *json.Number   `json:"every_ms"`
	Preset        *string        `json:"preset"`
	Seed          uint64         `json:"seed"`
	Law           quorumLaw      `json:"law"`
	Simulation    *quorumSim     `json:"simulation"`
	Explore       *exploreResult `json:"explore"`
}

type quorumLaw struct {
	TwoHolders bool `json:"two_holders"`
	Majority   int  `json:"majority"`
	Away       int  `json:"away"`
	Ended      int  `json:"ended"`
	From       int  `json:"two_from"`
	BareFrom   int  `json:"two_from_bare"`
}

type quorumSim struct {
	Clients          int         `json:"clients"`
	SpanMS           json.Number `json:"span_ms"`
	Acquisitions     int64       `json:"acquisitions"`
	Overlapped       int64       `json:"overlapped"`
	Episodes         int64       `json:"episodes"`
	LongestOverlapMS json.Number `json:"longest_overlap_ms"`
	EarlyEnds        int64       `json:"early_ends"`
	Lost             int64       `json:"leases_lost"`
	Refused          int64       `json:"refused"`
	Messages         int64       `json:"messages"`
}

func (a *quorumAnswer) document() QuorumDocument {
	q := a.question
	doc := QuorumDocument{
		Schema: "getsetlock.skew-quorum/1", TwoHolders: a.twoHold(), Members: a.law.Members, Votes: a.held(),
		Lost: a.law.Lost, Restarted: a.law.Restarted, RestartedWait: a.law.Wait, Jumped: a.law.Jumped,
		LeaseMS: out.Millis(q.lease), Seed: q.seed,
		Law: quorumLaw{TwoHolders: a.verdict.TwoHold, Majority: a.verdict.Majority, Away: a.verdict.Away,
			Ended: a.verdict.Ended, From: a.verdict.From, BareFrom: a.bare.From},
		Explore: a.exploreDocument(),
	}
	if a.jumpBy > 0 {
		doc.JumpByMS = new(out.Millis(a.jumpBy))
	}
	if a.every > 0 {
		doc.EveryMS = new(out.Millis(a.every))
	}
	if q.preset != nil {
		doc.Preset = &q.preset.Name
	}
	if r := a.rates; r != nil {
		text := q.job.String()
		doc.Job = &text
		doc.Simulation = &quorumSim{Clients: q.clients, SpanMS: out.Millis(r.Span),
			Acquisitions: r.Acquisitions, Overlapped: r.Entries, Episodes: r.Episodes,
			LongestOverlapMS: out.Millis(r.LongestEpisode), EarlyEnds: r.EarlyEnds, Lost: r.Lost,
			Refused: r.Refused, Messages: r.Messages}
	}
	return doc
}

// exploreDocument is the field explore. Its ticks are half a lease.
func (a *quorumAnswer) exploreDocument() *exploreResult {
	x := a.explored
	if x == nil {
		return nil
	}
	tick := a.question.lease / exploredTicks
	r := &exploreResult{States: x.States, Complete: x.Complete, TickMS: out.Millis(tick),
		Trace: []traceResult{}}
	if x.Found || x.Complete {
		safe := !x.Found
		r.Safe = &safe
	}
	for _, s := range x.Trace {
		event, effect, more := strings.Cut(s.Does, ": ")
		t := traceResult{AtMS: out.Millis(tick * time.Duration(s.At)), Client: s.Who, Event: event}
		if more {
			t.Effect = &effect
		}
		r.Trace = append(r.Trace, t)
	}
	return r
}
