// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Short names for the tables of these tests.
const (
	ms  = time.Millisecond
	sec = time.Second
)

func TestIntervalShowsItsEnds(t *testing.T) {
	for i, want := range map[Interval]string{
		{Low: -time.Second, High: 2 * time.Second}:  "−1s … +2s",
		{Low: 0, High: 0}:                           "+0s … +0s",
		{Low: NoLow, High: time.Second}:             "? … +1s",
		{Low: time.Second, High: NoHigh}:            "+1s … ?",
		{Low: -2 * time.Second, High: -time.Second}: "−2s … −1s",
	} {
		if got := i.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// stampedAt is a write by a clock that is ahead by offset, read at the true
// instant read.
func stampedAt(read time.Time, offset, since, until time.Duration) Stamped {
	clock := read.Add(offset).Truncate(ms)
	return Stamped{
		Expiry: clock.Add(time.Minute + ms), Unit: ms, Lease: time.Minute, Slack: ms,
		Prev: read.Add(-since), At: read.Add(until),
	}
}

func TestOneWriteProvesTheFormulasInterval(t *testing.T) {
	read := time.Unix(1_770_000_000, 0)
	s := stampedAt(read, 5*sec, 10*ms, 3*ms)
	if got, want := s.Offset(), (Interval{5*sec - 3*ms - time.Microsecond, 5*sec + 10*ms + ms}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	f := StampedBy(dialect.TaskTiger(), time.Minute, dialect.Stamp{Expiry: read})
	if f.Expiry.Add(f.Unit).Sub(read) != time.Microsecond || f.Expiry.Sub(read) != -time.Microsecond {
		t.Errorf("a double is rounded either way: %+v", f)
	}
	if cut := StampedBy(dialect.Kdyby(), 1500*ms, dialect.Stamp{Expiry: read}); cut.Lease+cut.Slack != 2*sec {
		t.Errorf("a client that cuts its lease: %+v", cut)
	}
}

func TestSnapLeaseNeedsOneClearlyNearestLease(t *testing.T) {
	around := func(d time.Duration) Interval { return Interval{d - ms, d + ms} }
	for _, c := range []struct {
		offset Interval
		want   time.Duration
		ok     bool
	}{
		{around(-30*sec + 40*ms), 30 * sec, true},
		{around(0), time.Minute, true},
		{around(-22 * sec), 0, false}, // 38 s
		{Interval{NoLow, 0}, 0, false},
		{Interval{-40 * sec, 40 * sec}, 0, false},
	} {
		got, warning, ok := SnapLease(time.Minute, c.offset)
		if ok != c.ok || ok && (got != c.want || !strings.Contains(warning, "guess")) {
			t.Errorf("%v: %v, %q, %v", c.offset, got, warning, ok)
		}
	}
}
