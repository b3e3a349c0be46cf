package zookeeper_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// step is what one contender did or believed, between two readings of the
// clock, in ns.
type step struct {
	client   int
	kind     string // "acquired", "trusted" or "ended"
	from, to int64
	fence    int64
}

// lockState is who holds the lock, and the last fencing number.
type lockState struct {
	holder int
	fence  int64
}

const nobody = -1

// lockModel states that leases exclude each other and that their fencing
// numbers grow.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{holder: nobody} },
	Step: func(state, input, _ any) (bool, any) {
		s, do := state.(lockState), input.(step)
		switch do.kind {
		case "acquired":
			return s.holder == nobody && do.fence > s.fence, lockState{do.client, do.fence}
		case "trusted":
			return s.holder == do.client, s
		}
		return s.holder == do.client, lockState{nobody, s.fence}
	},
}

func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	for name, steps := range map[string][]step{
		"two holders": {{0, "acquired", 0, 10, 1}, {1, "acquired", 20, 30, 2}, {0, "trusted", 40, 40, 0}},
		"same number": {{0, "acquired", 0, 10, 1}, {0, "ended", 20, 30, 0}, {1, "acquired", 40, 50, 1}},
	} {
		var ops []porcupine.Operation
		for _, s := range steps {
			ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
		}
		if porcupine.CheckOperations(lockModel, ops) {
			t.Errorf("%s: explained", name)
		}
	}
}
