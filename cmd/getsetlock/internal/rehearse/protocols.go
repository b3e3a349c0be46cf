package rehearse

import (
	"context"
	"time"
)

// protocolKind is one way of keeping programs apart. A new one is an entry of protocols.
type protocolKind struct {
	about   string
	dialect bool // Plan.Dialect matters
	groups  func(Plan) []groupSpec
	rules   func(Plan) (rules, error)
	walk    func(*moves, context.Context) error // through the phases of a migration

	// overrun is how long an old client thinks whose fate that is.
	overrun func(Plan) time.Duration
}

var protocols = map[string]protocolKind{
	"none": {
		about:  "no lock at all: the same job, and how many units are sold that were not there",
		groups: alone("none", newBareHands),
		rules:  func(Plan) (rules, error) { return noRules, nil },
	},
	"watch": {
		about:  "no lock, but WATCH, MULTI and EXEC around every deduction, and its price",
		groups: alone("watch", newWatcher),
		rules: func(Plan) (rules, error) {
			r := noRules
			r.free = "WATCH lets jobs overlap and refuses the write of all but one"
			return r, nil
		},
	},
}

// Protocols are the names of all that can be rehearsed, from the most naive to the safest.
func Protocols() []string { return []string{"none", "watch", "bare", "legacy", "dual", "modern"} }

// About is a protocol in one line.
func About(protocol string) string { return protocols[protocol].about }

// noRules excuse nothing: whoever takes no lock has no excuse.
var noRules = rules{
	ours: func(int) bool { return false },
	old:  func(int) bool { return false },
}

// alone is one group of clients that are all the same.
func alone(name string, make func(*worker) (seller, error)) func(Plan) []groupSpec {
	return func(p Plan) []groupSpec {
		return []groupSpec{{name: name, protocol: name, clients: p.Clients, make: make}}
	}
}
