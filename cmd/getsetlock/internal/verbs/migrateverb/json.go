// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

const migrateSchema = "getsetlock.migrate/1"

// logSchema is the schema of migrate log.
const logSchema = "getsetlock.migrate-log/1"

type logDocument struct {
	Schema  string        `json:"schema"`
	Entries []fleet.Entry `json:"entries" answer:"plain"`
}

// Document is the JSON document of every verb of migrate. A field is null where
// its value is unknown or was not asked for.
type Document struct {
	Schema    string          `json:"schema"`
	Namespace string          `json:"namespace"`
	Dialect   string          `json:"dialect"`
	Phase     migrate.Phase   `json:"phase" answer:"null"`
	Epoch     int64           `json:"epoch"`
	Pending   migrate.Phase   `json:"pending" answer:"null"`
	Since     time.Time       `json:"since"`
	Moved     bool            `json:"moved"`
	Over      bool            `json:"over"`
	Target    string          `json:"target" answer:"null"`
	Members   []migrateMember `json:"members"`
	Claims    []fleet.Claim   `json:"claims"`
	Gate      *fleet.Gate     `json:"gate"`
	Notes     []string        `json:"notes"`
	Fleet     *migrateFleet   `json:"fleet"`
	Road      []fleet.Leg     `json:"road" answer:"null"`
	RoadWait  *time.Duration  `json:"road_wait_ms"`
}

type migrateMember struct {
	ID      string                `json:"id"`
	Name    string                `json:"name"`
	Dialect string                `json:"dialect"`
	Phase   migrate.Phase         `json:"phase" answer:"null"`
	Epoch   int64                 `json:"epoch"`
	Seen    time.Time             `json:"seen"`
	Host    string                `json:"host"`
	Since   time.Time             `json:"since"`
	Leaving time.Time             `json:"leaving_until"`
	Leases  int                   `json:"leases"`
	ByPhase map[migrate.Phase]int `json:"leases_by_phase"`
	TTL     time.Duration         `json:"ttl_ms"`
	Behind  time.Duration         `json:"behind_ms" answer:"claim"`
	Ahead   time.Duration         `json:"ahead_ms" answer:"claim"`
	Probe   string                `json:"probe"`
	Target  string                `json:"target" answer:"null"`
}

// migrateFleet is what is known of the old clients.
type migrateFleet struct {
	Lease    known `json:"smallest_lease"`
	Greatest known `json:"greatest_lease"`
	Spread   known `json:"spread"`
	Gap      known `json:"gap"`
	Job      known `json:"job"`
	Behind   known `json:"behind"`
	Ahead    known `json:"ahead"`
	Idle     known `json:"idle"`
}

// known is a time with its basis. An unknown time is null.
type known struct {
	Time  *time.Duration `json:"time_ms"`
	Basis migrate.Source `json:"basis"`
}

func migrateDocument(r *fleet.Report) Document {
	doc := Document{
		Schema: migrateSchema, Namespace: r.Namespace, Dialect: r.Dialect, Phase: r.Phase, Epoch: r.Epoch,
		Pending: r.Pending, Since: r.Since, Moved: r.Moved, Over: r.Over, Target: r.Target,
		Claims: r.Claims, Gate: r.Gate, Notes: r.Notes,
	}
	for _, m := range r.Members {
		leases := 0
		for _, n := range m.Leases {
			leases += n
		}
		doc.Members = append(doc.Members, migrateMember{m.ID, m.Name, m.Dialect, m.Phase, m.Epoch, m.Seen,
			m.Host, m.Since, m.Leaving, leases, m.Leases, m.TTL, m.Behind, m.Ahead, m.Probe, m.Target})
	}
	return doc
}

func roadDocument(road *fleet.Road) Document {
	doc, f := migrateDocument(road.Report), road.Fleet
	doc.Fleet = &migrateFleet{knownOf(f.Lease), knownOf(f.Greatest), knownOf(f.Spread), knownOf(f.Gap),
		knownOf(f.Job), knownOf(f.Behind), knownOf(f.Ahead), knownOf(f.Idle)}
	doc.Road, doc.RoadWait = road.Legs, &road.Wait
	return doc
}

func knownOf(k migrate.Known) known {
	if k.Source == migrate.Unknown {
		return known{}
	}
	return known{&k.Time, k.Source}
}
