// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"testing"
	"time"
)

// look is an observation whose round trip took ten milliseconds.
func look(sent time.Duration, value string) Observation {
	return Observation{Key: "stock", Exists: true, Type: "string", Value: value, Sent: sent,
		Received: sent + 10*time.Millisecond}
}

func TestUnchangedCountsFromFirstReplyToLastRequest(t *testing.T) {
	s := time.Second
	o := look(0, "v").Follow(Observation{}, 3*s)
	if o.Unchanged() != 0 {
		t.Errorf("one look proves %s", o.Unchanged())
	}
	for at := s; at <= 60*s; at += s {
		o = look(at, "v").Follow(o, 3*s)
	}
	if want := 60*s - 10*time.Millisecond; o.Unchanged() != want {
		t.Errorf("unchanged for %s, want %s", o.Unchanged(), want)
	}
}

func TestFollowStartsNewRun(t *testing.T) {
	s := time.Second
	before := look(0, "v").Follow(Observation{}, 3*s)
	missing := look(s, "")
	missing.Exists = false
	other := look(s, "v")
	other.Key = "other"
	list := look(s, "v")
	list.Type = "list"
	late := look(s, "v") // sent in time, and under way for long
	late.Received = 3*s + 11*time.Millisecond
	for name, next := range map[string]Observation{
		"another value": look(s, "w"), "sparse looks": look(3*s+time.Millisecond, "v"), "missing": missing,
		"a late reply": late,
		"another key":  other, "another type": list,
	} {
		if got := next.Follow(before, 3*s); got.SameSince != got.Received || got.Unchanged() != 0 {
			t.Errorf("%s: the run goes on, for %s", name, got.Unchanged())
		}
	}
	if got := look(2*s, "").Follow(missing.Follow(before, 3*s), 3*s); got.Unchanged() != 0 {
		t.Error("an empty value continues a missing key")
	}
	gone := missing
	if got := gone.Follow(look(0, "").Follow(Observation{}, 3*s), 3*s); got.SameSince != got.Received {
		t.Error("a missing key continues an empty value")
	}
	if got := look(3*s, "v").Follow(before, 3*s); got.SameSince != before.Received {
		t.Error("a gap as long as allowed breaks the run")
	}
}

func TestServerStepIgnoresRoundTrips(t *testing.T) {
	ms := time.Millisecond
	first := look(0, "v")
	first.ServerMicros = 1_400_000_000_000_000
	for _, c := range []struct {
		micros int64
		want   time.Duration
	}{
		{1_000_000, 0}, {990_000, 0}, {1_010_000, 0},
		{1_010_001, time.Microsecond}, {989_999, -time.Microsecond}, {21_000_000, 20*time.Second - 10*ms},
		{-1_000_000, -time.Second - 990*ms},
	} {
		next := look(time.Second, "v")
		next.ServerMicros = first.ServerMicros + c.micros
		if got := next.ServerStep(first); got != c.want {
			t.Errorf("server moved %d µs in a second: step %s, want %s", c.micros, got, c.want)
		}
	}
	if got := look(time.Second, "v").ServerStep(first); got != 0 {
		t.Errorf("without the server's time: %s", got)
	}
}

func TestServerNowIsZeroWhenNotAsked(t *testing.T) {
	if !(Observation{}).ServerNow().IsZero() {
		t.Error("1970 is not an unknown time")
	}
	o := Observation{ServerMicros: 1_400_000_000_123_456}
	if want := time.Unix(1_400_000_000, 123_456_000); !o.ServerNow().Equal(want) ||
		o.ServerNow().Location() != time.UTC {
		t.Errorf("%s", o.ServerNow())
	}
}
