// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// protocolKind is one way in which programs exclude each other. A new one is an
// entry of protocols.
type protocolKind struct {
	about   string
	dialect bool // Plan.Dialect matters, and an old client's job can outlast its lease
	groups  func(Plan) []*team

	// terms returns the leases of the clients. nil: they have none.
	terms func(Plan) (dialect.Terms, error)
	rules func(Plan, dialect.Terms) rules     // nil: no guarantee
	walk  func(*moves, context.Context) error // conducts a migration; nil: none
}

// modernTTL is the default TTL of package lock for backends without one of
// their own.
const modernTTL = 30 * time.Second

var protocols = map[string]protocolKind{
	"none": {
		about:  "no lock at all, to see how much is oversold",
		groups: alone("none", lockless, bareHands),
	},
	"watch": {
		about:  "WATCH, MULTI and EXEC around each deduction, in place of a lock",
		groups: alone("watch", lockless, transactions),
		rules: func(Plan, dialect.Terms) rules {
			return rules{free: "WATCH lets jobs overlap and refuses the write of all but one"}
		},
	},
	"bare": {
		about: "SETNX of a constant, and DEL: a dead holder keeps it for ever",
		groups: func(p Plan) []*team {
			return []*team{newTeam("bare", "verbatim", p.Clients, oldClient, oldLocker)}
		},
		terms: Plan.terms,
		rules: legacyRules,
	},
	"legacy": {
		about:   "old clients (verbatim) and new clients (hardened) share the keys",
		dialect: true,
		groups:  mixed("hardened", newLocker),
		terms:   Plan.terms,
		rules:   legacyRules,
	},
	"dual": {
		about:   "old clients (verbatim) and bridges in phase dual share the keys",
		dialect: true,
		groups:  mixed("dual", dualLocker),
		terms:   Plan.terms,
		rules:   legacyRules,
	},
	"modern": {
		about:  "token locks alone, as in a fleet without old clients",
		groups: alone("modern", newClient, modernLocker),
		terms:  func(Plan) (dialect.Terms, error) { return dialect.Terms{Lease: modernTTL}, nil },
		rules:  func(Plan, dialect.Terms) rules { return rules{margin: modernTTL / 10} },
	},
	movingFleet: {
		about:   "a fleet that goes through all phases of a migration",
		dialect: true,
		groups: func(p Plan) []*team {
			return []*team{
				newTeam("old", "verbatim", p.Clients, oldClient, oldLocker),
				newTeam("new", "by phase", 0, newClient, member),
				newTeam("plain", "modern", 0, newClient, plainLocker),
			}
		},
		terms: Plan.terms,
		rules: legacyRules,
		walk:  (*moves).road,
	},
}

// movingFleet is the name of the protocol that --phases stands for.
const movingFleet = "phases"

// Protocols returns the names of the protocols, from the most naive to the
// safest.
func Protocols() []string { return []string{"none", "watch", "bare", "legacy", "dual", "modern"} }

// About returns the description of a protocol.
func About(protocol string) string { return protocols[protocol].about }

// alone returns one group of identical clients.
func alone(name string, k kind, equip func(*worker) error) func(Plan) []*team {
	return func(p Plan) []*team {
		return []*team{newTeam(name, name, p.Clients, k, equip)}
	}
}

// mixed returns half of each kind. If the number is odd, there is one more old
// client.
func mixed(protocol string, equip func(*worker) error) func(Plan) []*team {
	return func(p Plan) []*team {
		return []*team{
			newTeam("old", "verbatim", (p.Clients+1)/2, oldClient, oldLocker),
			newTeam("new", protocol, p.Clients/2, newClient, equip),
		}
	}
}

// legal returns the leases and the guarantees that the plan's protocol has with
// its times.
func (k protocolKind) legal(p Plan) (t dialect.Terms, r rules, err error) {
	if k.terms != nil {
		t, err = k.terms(p)
	}
	if err == nil && k.rules != nil {
		r = k.rules(p, t)
	}
	return t, r, err
}
