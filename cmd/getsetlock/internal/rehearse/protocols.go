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
		groups: alone("none", newBareHands),
		rules:  func(Plan) (rules, error) { return noRules, nil },
	},
	"watch": {
		about:  "WATCH, MULTI and EXEC around each deduction, in place of a lock",
		groups: alone("watch", newTransactions),
		rules: func(Plan) (rules, error) {
			r := noRules
			r.free = "WATCH lets jobs overlap and refuses the write of all but one"
			return r, nil
		},
	},
}

// Protocols returns the names of the protocols, from the most naive to the
// safest.
func Protocols() []string { return []string{"none", "watch", "bare", "legacy", "dual", "modern"} }

// About returns the description of a protocol.
func About(protocol string) string { return protocols[protocol].about }

// noRules excuse nothing.
var noRules = rules{
	ours: func(int) bool { return false },
	old:  func(int) bool { return false },
}

// alone returns one group of identical clients.
func alone(name string, make func(*worker) (seller, error)) func(Plan) []groupSpec {
	return func(p Plan) []groupSpec {
		return []groupSpec{{name: name, protocol: name, clients: p.Clients, make: make}}
	}
}
