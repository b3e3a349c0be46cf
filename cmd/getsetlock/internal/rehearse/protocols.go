// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// protocolKind is one way in which programs exclude each other. A new one is an
// entry of protocols.
type protocolKind struct {
	about   string
	dialect bool // Plan.Dialect matters, and an old client's job can outlast its lease
	groups  func(Plan) []groupSpec

	// terms returns the leases of the clients. nil: they have none.
	terms func(Plan) (dialect.Terms, error)
	rules func(Plan, dialect.Terms) rules     // nil: no guarantee
	walk  func(*moves, context.Context) error // conducts a migration; nil: none
}

var protocols = map[string]protocolKind{
	"none": {
		about:  "no lock at all, to see how much is oversold",
		groups: alone("none", lockless, newBareHands),
	},
	"watch": {
		about:  "WATCH, MULTI and EXEC around each deduction, in place of a lock",
		groups: alone("watch", lockless, newTransactions),
		rules: func(Plan, dialect.Terms) rules {
			return rules{free: "WATCH lets jobs overlap and refuses the write of all but one"}
		},
	},
	"bare": {
		about: "SETNX of a constant, and DEL: a dead holder keeps it for ever",
		groups: func(p Plan) []groupSpec {
			return []groupSpec{{name: "bare", protocol: "verbatim", clients: p.Clients, kind: oldClient,
				make: oldLocker}}
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
		groups: func(p Plan) []groupSpec {
			return []groupSpec{
				{name: "old", protocol: "verbatim", clients: p.Clients, kind: oldClient, make: oldLocker},
				{name: "new", protocol: "by phase", kind: newClient, make: member},
				{name: "plain", protocol: "modern", kind: newClient, make: plainLocker},
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
func alone(name string, k kind, make func(*worker) (seller, error)) func(Plan) []groupSpec {
	return func(p Plan) []groupSpec {
		return []groupSpec{{name: name, protocol: name, clients: p.Clients, kind: k, make: make}}
	}
}

// mixed returns half of each kind. If the number is odd, there is one more old
// client.
func mixed(protocol string, make func(*worker) (seller, error)) func(Plan) []groupSpec {
	return func(p Plan) []groupSpec {
		return []groupSpec{
			{name: "old", protocol: "verbatim", clients: (p.Clients + 1) / 2, kind: oldClient,
				make: oldLocker},
			{name: "new", protocol: protocol, clients: p.Clients / 2, kind: newClient, make: make},
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
