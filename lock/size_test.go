// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"reflect"
	"testing"
)

// The bounds are sizes of the allocator's classes: one byte more costs sixteen
// for each of a hundred thousand leases. docs/internals/performance.md names
// them.
func TestLeaseStaysSmall(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		most uintptr
	}{
		{reflect.TypeFor[Lease](), 176},
		{reflect.TypeFor[queue](), 48},
		{reflect.TypeFor[ticket](), 112},
	} {
		if c.of.Size() > c.most {
			t.Errorf("%v has %d bytes; at most %d", c.of, c.of.Size(), c.most)
		}
	}
}
