// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often. The tests build thousands of small
// worlds one after another, and with the default setting half of the processor
// time went into collecting what they left.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
