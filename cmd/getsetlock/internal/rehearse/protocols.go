// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"time"
)

// protocolKind is one way in which programs exclude each other. A new one is an
// entry of protocols.
type protocolKind struct {
	about   string
	dialect bool // Plan.Dialect matters
	groups  func(Plan) []groupSpec
	rules   func(Plan) (rules, error)
	walk    func(*moves, context.Context) error // conducts a migration; nil: none

	// overrun returns how long an old client's job takes if its fate is to
	// overrun.
	overrun func(Plan) time.Duration
}

var protocols = map[string]protocolKind{
	"none": {
		about:  "no lock at all, to see how much is oversold",
		groups: alone("none", lockless, newBareHands),
		rules:  func(Plan) (rules, error) { return rules{}, nil },
	},
	"watch": {
		about:  "WATCH, MULTI and EXEC around each deduction, in place of a lock",
		groups: alone("watch", lockless, newTransactions),
		rules: func(Plan) (rules, error) {
			return rules{free: "WATCH lets jobs overlap and refuses the write of all but one"}, nil
		},
	},
}

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
