// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"testing"
	"time"
)

// wroteAt is the stamp of a client whose clock is behind the server's, read
// when the server's clock showed read.
func wroteAt(t *testing.T, d Dialect, read time.Time, lease, behind time.Duration) Stamp {
	t.Helper()
	text, err := d.Stamp(read.Add(-behind), lease, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := d.Decode(text, read)
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

// No honest client refutes a true claim, however late a look comes and wherever
// in its unit the clock was read.
func TestSeenNeverRefutesATrueClaim(t *testing.T) {
	const behind = 3 * time.Second
	for _, d := range Presets() {
		if !d.HasTakeover() {
			continue
		}
		terms := filled(t, d, Terms{Lease: 20 * time.Second, Greatest: 40 * time.Second, Behind: behind,
			Gap: time.Second, Ahead: Zero})
		for i := range 500 {
			since := time.Unix(1_500_000_000, int64(i)*7_777_777)
			for _, lease := range []time.Duration{20 * time.Second, 40 * time.Second} {
				for _, off := range []time.Duration{0, behind} {
					var seen Seen
					read := since.Add(-time.Second) // the write follows after the whole gap
					seen.Add(d, terms, wroteAt(t, d, read, lease, off), since, since)
					seen.Add(d, terms, wroteAt(t, d, since, lease, off), since, since.Add(time.Hour))
					if terms.Against(seen) != terms {
						t.Fatalf("%s, lease %s, behind %s: %+v", d, lease, off, seen)
					}
				}
			}
		}
	}
}

func TestSeenVoidsWhatAStampContradicts(t *testing.T) {
	since := time.Unix(1_500_000_000, 0)
	d := Jedis()
	terms := filled(t, d, Terms{Lease: 20 * time.Second, Behind: time.Second, Gap: time.Second})
	for _, c := range []struct {
		name          string
		lease, behind time.Duration
		since         time.Time
		want          Seen
	}{
		{"a clock two minutes behind", 20 * time.Second, 2 * time.Minute, since,
			Seen{Behind: 119*time.Second - time.Millisecond}},
		{"an older write", 20 * time.Second, 2 * time.Minute, time.Time{}, Seen{}},
		{"the start of a lease", time.Millisecond, 0, since,
			Seen{Behind: 19*time.Second - 2*time.Millisecond}},
		{"a longer lease", 50 * time.Second, 0, since, Seen{Greatest: 50 * time.Second}},
		{"a getsetlock client's stamp", 24*time.Hour + 20*time.Second, 0, since, Seen{}},
	} {
		var seen Seen
		seen.Add(d, terms, wroteAt(t, d, since, c.lease, c.behind), c.since, since)
		if seen != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, seen, c.want)
		}
		got := terms.Against(seen)
		if (got.Behind == 0) != (seen.Behind > 0) || got.Greatest != max(terms.Greatest, seen.Greatest) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A longer lease was seen, and the longest may be longer still.
func TestSeenStatesNoLease(t *testing.T) {
	terms := filled(t, Jedis(), Terms{})
	if got := terms.Against(Seen{Greatest: time.Hour}); got.Greatest != Unstated {
		t.Errorf("%s", got.Greatest)
	}
}
