// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"testing"
	"time"
)

// starting is a preset whose clients write the start of a lease of a minute.
func starting(d Dialect) Dialect {
	d.Name, d.StartTime, d.Lease = d.Name+"Start", true, time.Minute
	return d
}

// The start of a lease and its end say the same about the same client.
func TestStartTimeShiftsEveryReadingByTheLease(t *testing.T) {
	now := time.Unix(1_500_000_000, 250_000_000).UTC()
	for _, end := range Presets() {
		if !end.HasStamp() {
			continue
		}
		start := starting(end)
		if err := start.Validate(); err != nil {
			t.Fatal(err)
		}
		atEnd, err1 := end.Stamp(now, time.Minute, testUUID)
		atStart, err2 := start.Stamp(now, time.Minute, testUUID)
		same, err3 := end.Stamp(now.Add(-time.Minute), time.Minute, testUUID)
		if err1 != nil || err2 != nil || err3 != nil || atStart != same {
			t.Fatalf("%s: %q, want %q; %v %v %v", start, atStart, same, err1, err2, err3)
		}
		one, err1 := end.Decode(atEnd, now)
		two, err2 := start.Decode(atStart, now)
		if err1 != nil || err2 != nil || one.Expiry.Sub(two.Expiry).Abs() > time.Microsecond {
			t.Errorf("%s: ends at %v, want %v; %v %v", start, two.Expiry, one.Expiry, err1, err2)
		}
		for _, later := range []time.Duration{0, 59 * time.Second, 63 * time.Second} {
			if got, want := start.LegacyNext(Text(atStart), "", now.Add(later)),
				end.LegacyNext(Text(atEnd), "", now.Add(later)); got != want {
				t.Errorf("%s after %v: %s, want %s", start, later, got, want)
			}
		}
	}
}

func TestStartTimeHasOneStatedLease(t *testing.T) {
	d := starting(Jedis())
	if got := filled(t, d, Terms{}); got.Lease != time.Minute || got.Greatest != time.Minute {
		t.Errorf("%+v", got)
	}
	for _, other := range []Terms{{Lease: time.Second}, {Greatest: 2 * time.Minute}} {
		if _, err := d.Terms(other); !errors.Is(err, errTerms) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	d.Lease = 0
	if err := d.Validate(); err == nil {
		t.Error("valid without a lease")
	}
}
