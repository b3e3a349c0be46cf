package lock

import (
	"errors"
	"testing"
)

// TestARenewalBeginsOnALivingLeaseOnly: behind the end of a lease its grant may be shared with the next
// holder, who is the only one to extend it.
func TestARenewalBeginsOnALivingLeaseOnly(t *testing.T) {
	l := &Lease{}
	if _, mine, err := l.occupy(); !mine || err != nil {
		t.Fatalf("a living lease: %v, %v", mine, err)
	}
	if busy, mine, err := l.occupy(); busy == nil || mine || err != nil {
		t.Fatalf("one that is being renewed: %v, %v, %v", busy, mine, err)
	}
	l.cause = ErrReleased
	for _, busy := range []bool{true, false} {
		l.renewal.busy = busy
		if _, mine, err := l.occupy(); mine || !errors.Is(err, ErrReleased) {
			t.Errorf("one that has ended: %v, %v", mine, err)
		}
	}
}
