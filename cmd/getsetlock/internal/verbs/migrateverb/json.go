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

// LogDocument is the JSON document of migrate log.
type LogDocument struct {
	Schema  string        `json:"schema"`
	Entries []fleet.Entry `json:"entries" answer:"plain"` // the oldest first
}

// Document is the JSON document of every verb of migrate. A field is null where
// its value is unknown or was not asked for.
type Document struct {
	Schema string `json:"schema"`
	// the locks whose keys begin with this text; empty: all
	Namespace string        `json:"namespace"`
	Dialect   string        `json:"dialect"`               // of the old clients, as recorded
	Phase     migrate.Phase `json:"phase" answer:"null"`   // null without a record
	Epoch     int64         `json:"epoch"`                 // number of steps so far
	Pending   migrate.Phase `json:"pending" answer:"null"` // phase whose remains are not gone yet
	Since     time.Time     `json:"since"`                 // when the last step was taken
	Moved     bool          `json:"moved"`                 // this call changed the record
	Over      bool          `json:"over"`                  // nothing of the last step is left to be done
	// what members compose their locks with in clean
	Target  string          `json:"target" answer:"null"`
	Members []migrateMember `json:"members"` // programs that the registry knows
	Claims  []fleet.Claim   `json:"claims"`  // what operators claimed of the old clients
	// the gate to the next phase; null where no step is possible
	Gate  *fleet.Gate   `json:"gate"`
	Notes []string      `json:"notes"` // what else the call did, in sentences
	Fleet *migrateFleet `json:"fleet"` // plan: what is known of the old clients; else null
	// plan: all steps that are left; else null
	Road []fleet.Leg `json:"road" answer:"null"`
	// plan: how long all of them take at least; else null
	RoadWait *time.Duration `json:"road_wait_ms"`
}

type migrateMember struct {
	ID      string `json:"id"`      // drawn when the program began
	Name    string `json:"name"`    // as the program names itself
	Dialect string `json:"dialect"` // its own
	// the last that it acknowledged; null: none
	Phase   migrate.Phase `json:"phase" answer:"null"`
	Epoch   int64         `json:"epoch"`         // the last that it acknowledged
	Seen    time.Time     `json:"seen"`          // last heartbeat
	Host    string        `json:"host"`          // machine that it runs on
	Since   time.Time     `json:"since"`         // first heartbeat
	Leaving time.Time     `json:"leaving_until"` // null unless it left a lock to its TTL
	Leases  int           `json:"leases"`        // number of leases
	// number of leases by the phase in which they were taken
	ByPhase map[migrate.Phase]int `json:"leases_by_phase"`
	TTL     time.Duration         `json:"ttl_ms"` // the longest lease it asked for
	// how far it takes old clients' clocks to be behind the server's; null: it
	// knows no bound
	Behind time.Duration `json:"behind_ms" answer:"claim"`
	Ahead  time.Duration `json:"ahead_ms" answer:"claim"` // how far ahead of it, likewise
	Probe  string        `json:"probe"`                   // ok, or what its scripts said
	Target string        `json:"target" answer:"null"`    // what it composes its locks with
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
	Time  *time.Duration `json:"time_ms"` // null: unknown
	Basis migrate.Source `json:"basis"`   // claimed, default or unknown
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
