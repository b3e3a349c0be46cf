// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"testing"
)

// After the end of a lease its grant may be shared with the next holder. Only
// that holder may extend it.
func TestRenewalBeginsOnlyOnALivingLease(t *testing.T) {
	l := &Lease{}
	if _, mine, err := l.occupy(); !mine || err != nil {
		t.Fatalf("a living lease: %v, %v", mine, err)
	}
	if busy, mine, err := l.occupy(); busy == nil || mine || err != nil {
		t.Fatalf("a lease that is being renewed: %v, %v, %v", busy, mine, err)
	}
	l.cause = ErrReleased
	for _, busy := range []bool{true, false} {
		l.renewal.busy = busy
		if _, mine, err := l.occupy(); mine || !errors.Is(err, ErrReleased) {
			t.Errorf("a lease that has ended: %v, %v", mine, err)
		}
	}
}
