// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/getsetlock/getsetlock/internal/testing/history"
)

// TestModelRefusesHistoriesThatNoLockHas shows that the check of histories can
// fail.
func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	acquired := func(client int, from, to, fence int64) history.Step {
		return history.Step{Client: client, Kind: history.Acquired, From: from, To: to, Fence: fence}
	}
	seen := func(client int, kind history.Kind, from, to int64) history.Step {
		return history.Step{Client: client, Kind: kind, From: from, To: to}
	}
	for name, steps := range map[string][]history.Step{
		"two holders": {acquired(0, 0, 10, 1), acquired(1, 20, 30, 2), seen(0, history.Trusted, 40, 50)},
		"same number": {acquired(0, 0, 10, 1), seen(0, history.Ended, 20, 30), acquired(1, 40, 50, 1)},
		"smaller number after none": {acquired(0, 0, 10, 5), seen(0, history.Ended, 20, 30),
			acquired(1, 40, 50, 0), seen(1, history.Ended, 60, 70), acquired(2, 80, 90, 3)},
		"trusted too long": {acquired(0, 0, 10, 1), seen(0, history.Ended, 15, 60), acquired(1, 20, 30, 2),
			seen(0, history.Trusted, 40, 50)},
	} {
		if porcupine.CheckOperations(history.Lock, history.Operations(steps)) {
			t.Errorf("%s: explained", name)
		}
	}
}
