package lock

import (
	"testing"
	"time"
)

// TestALeaseOfTheUsualOrTheClaimedSpanNeedsNoRoomForIt: one of the two is what nearly every lease has, and
// making room for another is on the way of who waits for a key that was given to it.
func TestALeaseOfTheUsualOrTheClaimedSpanNeedsNoRoomForIt(t *testing.T) {
	c := &Client{cfg: Config{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Margin: time.Second}}
	l := &Lease{client: c}
	for _, step := range []struct {
		span time.Duration
		room bool
	}{
		{9 * time.Second, false}, // TTL less Margin
		{2 * time.Second, false}, // what a place claims, less Margin
		{9 * time.Second, false},
		{5 * time.Second, true}, // neither: a store that granted less
		{2 * time.Second, true}, // which stays, and means nothing
		{9 * time.Second, true},
	} {
		l.limit(step.span)
		if l.span() != step.span {
			t.Errorf("limited to %v it is trusted for %v", step.span, l.span())
		}
		if room := l.more != nil; room != step.room {
			t.Errorf("limited to %v it has more: %t", step.span, room)
		}
	}
}
