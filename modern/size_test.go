// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"reflect"
	"testing"
)

// TestGrantStaysSmall bounds the memory of each held lease, like the test of
// Lease in package lock.
func TestGrantStaysSmall(t *testing.T) {
	if of := reflect.TypeFor[grant](); of.Size() > 112 {
		t.Errorf("%v has %d bytes; at most 112", of, of.Size())
	}
}
