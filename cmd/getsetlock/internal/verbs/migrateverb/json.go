package migrateverb

import (
	"encoding/json"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

const migrateSchema = "getsetlock.migrate/1"

// logSchema is the schema of migrate log.
const logSchema = "getsetlock.migrate-log/1"

type logDocument struct {
	Schema  string        `json:"schema"`
	Entries []fleet.Entry `json:"entries"`
}

// Document is the JSON document of every verb of migrate. A field is null where
// its value is unknown or was not asked for.
type Document struct {
	Schema    string          `json:"schema"`
	Namespace string          `json:"namespace"`
	Dialect   string          `json:"dialect"`
	Phase     *string         `json:"phase"`
	Epoch     int64           `json:"epoch"`
	Pending   *string         `json:"pending"`
	Since     *string         `json:"since"`
	Moved     bool            `json:"moved"`
	Over      bool            `json:"over"`
	Target    *string         `json:"target"`
	Members   []migrateMember `json:"members"`
	Claims    []migrateClaim  `json:"claims"`
	Gate      *migrateGate    `json:"gate"`
	Notes     []string        `json:"notes"`
	Fleet     *migrateFleet   `json:"fleet"`
	Road      []migrateLeg    `json:"road"`
	RoadWait  *json.Number    `json:"road_wait_ms"`
}

// migrateClaim is a time of the old clients that an operator claimed. Against
// is what was seen that contradicts it, null where nothing does.
type migrateClaim struct {
	Rule    string      `json:"rule"`
	Time    json.Number `json:"time_ms"`
	Against *string     `json:"contradicted_by"`
}

type migrateMember struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Dialect string         `json:"dialect"`
	Phase   *string        `json:"phase"`
	Epoch   int64          `json:"epoch"`
	Seen    *string        `json:"seen"`
	Host    string         `json:"host"`
	Since   *string        `json:"since"`
	Leaving *string        `json:"leaving_until"`
	Leases  int            `json:"leases"`
	ByPhase map[string]int `json:"leases_by_phase"`
	TTL     json.Number    `json:"ttl_ms"`
	Behind  *json.Number   `json:"behind_ms"`
	Ahead   *json.Number   `json:"ahead_ms"`
	Probe   string         `json:"probe"`
	Target  *string        `json:"target"`
}

type migrateGate struct {
	To       string           `json:"to"`
	Open     bool             `json:"open"`
	Wait     json.Number      `json:"wait_ms"`
	Blocks   []migrateFinding `json:"blocks"`
	Evidence []migrateFinding `json:"evidence"`
}

type migrateFinding struct {
	Rule    string  `json:"rule"`
	Detail  string  `json:"detail"`
	Seen    *string `json:"seen"`
	Claimed bool    `json:"claimed"`
}

// migrateFleet is what is known of the old clients. A null time is unknown.
type migrateFleet struct {
	Lease    migrateKnown `json:"smallest_lease"`
	Greatest migrateKnown `json:"greatest_lease"`
	Spread   migrateKnown `json:"spread"`
	Gap      migrateKnown `json:"gap"`
	Job      migrateKnown `json:"job"`
	Behind   migrateKnown `json:"behind"`
	Ahead    migrateKnown `json:"ahead"`
	Idle     migrateKnown `json:"idle"`
}

type migrateKnown struct {
	Time  *json.Number `json:"time_ms"`
	Basis string       `json:"basis"`
}

type migrateLeg struct {
	From     *string          `json:"from"`
	To       string           `json:"to"`
	Wait     json.Number      `json:"wait_ms"`
	Needs    []string         `json:"needs"`
	Refuses  []migrateFinding `json:"refuses"`
	Evidence []migrateFinding `json:"evidence"`
}

func migrateDocument(r *fleet.Report) Document {
	a := Document{
		Schema: migrateSchema, Namespace: r.Namespace, Dialect: r.Dialect, Phase: phaseName(r.Phase),
		Epoch: r.Epoch, Pending: phaseName(r.Pending),
		Since: out.Instant(r.Since), Moved: r.Moved, Over: r.Over, Members: []migrateMember{},
		Notes: append([]string{}, r.Notes...),
	}
	a.Target = named(r.Target)
	for _, m := range r.Members {
		one := migrateMember{
			ID: m.ID, Name: m.Name, Host: m.Host, Since: out.Instant(m.Since),
			Leaving: out.Instant(m.Leaving), Dialect: m.Dialect, Phase: phaseName(m.Phase), Epoch: m.Epoch,
			Seen:    out.Instant(m.Seen),
			ByPhase: map[string]int{}, TTL: out.Millis(m.TTL), Behind: out.ClaimMillis(m.Behind),
			Ahead: out.ClaimMillis(m.Ahead), Probe: m.Probe, Target: named(m.Target),
		}
		for p, n := range m.Leases {
			one.Leases += n
			one.ByPhase[p.String()] = n
		}
		a.Members = append(a.Members, one)
	}
	a.Claims = []migrateClaim{}
	for _, c := range r.Claims {
		a.Claims = append(a.Claims, migrateClaim{c.Rule, out.Millis(c.Time), named(c.Against)})
	}
	if g := r.Gate; g != nil {
		a.Gate = &migrateGate{g.To.String(), g.Open, out.Millis(g.Wait), findingsOf(g.Blocks),
			findingsOf(g.Evidence)}
	}
	return a
}

// named is nil for an empty text.
func named(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func roadDocument(road *fleet.Road) Document {
	a := migrateDocument(road.Report)
	a.Fleet = &migrateFleet{
		knownOf(road.Fleet.Lease), knownOf(road.Fleet.Greatest), knownOf(road.Fleet.Spread),
		knownOf(road.Fleet.Gap), knownOf(road.Fleet.Job),
		knownOf(road.Fleet.Behind), knownOf(road.Fleet.Ahead), knownOf(road.Fleet.Idle),
	}
	a.Road = []migrateLeg{}
	for _, l := range road.Legs {
		a.Road = append(a.Road, migrateLeg{
			phaseName(l.From), l.To.String(), out.Millis(l.Wait), append([]string{}, l.Needs...),
			findingsOf(l.Refuses), findingsOf(l.Evidence)})
	}
	a.RoadWait = new(out.Millis(road.Wait))
	return a
}

func findingsOf(all []fleet.Finding) []migrateFinding {
	doc := []migrateFinding{}
	for _, f := range all {
		doc = append(doc, migrateFinding{f.Rule, f.Detail, out.Instant(f.Seen), f.Claimed})
	}
	return doc
}

func knownOf(k migrate.Known) migrateKnown {
	doc := migrateKnown{Basis: k.Source.String()}
	if doc.Basis != migrate.Unknown.String() {
		doc.Time = new(out.Millis(k.Time))
	}
	return doc
}

// phaseName returns the phase's name, and nil where there is no phase.
func phaseName(p migrate.Phase) *string {
	if p == migrate.NoPhase {
		return nil
	}
	name := p.String()
	return &name
}
