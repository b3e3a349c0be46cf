// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestEveryDialectReadsItsOwnStamps(t *testing.T) {
	for _, d := range Presets() {
		if !d.HasStamp() {
			continue
		}
		for _, lease := range []time.Duration{time.Second, 30 * time.Second, 24 * time.Hour} {
			text, err := d.Stamp(tableNow, lease, testUUID)
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.Decode(text, tableNow)
			if err != nil {
				t.Errorf("%s: %v", d, err)
				continue
			}
			off := s.Expiry.Sub(tableNow.Add(lease + d.Slack)).Abs()
			if s.Text != text || off > d.Unit.Step() || (s.ID != "") != (d.Shape == ShapeUUIDNumber) {
				t.Errorf("%s: %+v of %s, off by %s", d, s, text, off)
			}
		}
	}
}

func TestDecodeAcceptsOnlyItsOwnForm(t *testing.T) {
	for _, c := range []struct {
		d      Dialect
		values string
		want   error
	}{
		{Jedis(), "+1400000060124| 1400000060124|1400000060124 |01400000060124|1400000060124L|1.4e12|1400000060124.0|" +
			"-1|abc||0x10|9223372036854775808|" + testUUID + ":1400000060124|\u0661\u0664", ErrUnreadable},
		{
			Jedis(), "0|1|1400000060|1400000060124000000|9223372036854775807|4000000000000000001|636623568000000000", ErrImplausible},
		{JedisUUID(), "1400000060124|" + strings.ToUpper(testUUID) +
			":1400000060124|0-0-0-0-0:1400000060124|" + testUUID +
			":|" + testUUID + "|" + testUUID + ":+1400000060124|" + testUUID +
			":1400000060124:1|:1400000060124", ErrUnreadable},
		{JedisUUID(), zeroUUID + ":" + Tombstone63 + "|" + testUUID + ":4000000000000000001|" + testUUID +
			":1", ErrImplausible},
		{RedisPy(), "1400000030.|.5|1.4e9|nan|inf|+1400000030.1|01400000030.1|1400000030.1x|1400000030.1.2|1_400_000_030.5|" +
			"1400000030.12345678|-1400000030.5|1400000030.-1", ErrUnreadable},
		{RedisPy(), "1.0|2147483649.0|9223372036854775807|1400000030123|4000000000000000001|0",
			ErrImplausible},
		{Page(), "1400000060.0|", ErrUnreadable},
		{Page(), "1400000060124|1", ErrImplausible},
		{Gorlock(), "1400000060124|1400000060|9223372036854775807", ErrImplausible},
		{Bare(), "lock|1400000060124|", errNoStamp},
		{SetPexpire(), "42", errNoStamp},
	} {
		for _, value := range strings.Split(c.values, "|") {
			s, err := c.d.Decode(value, tableNow)
			if !errors.Is(err, c.want) {
				t.Errorf("%s of %q: %v, want %v", c.d, value, err, c.want)
			}
			if s != (Stamp{}) {
				t.Errorf("%s of %q: %+v with an error", c.d, value, s)
			}
		}
	}
}

func TestPlausibleIsOneYearBehindAndTenAhead(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		away time.Duration
		ok   bool
	}{{-365 * day, true}, {-365*day - time.Millisecond, false}, {3652 * day, true},
		{3652*day + time.Millisecond, false}} {
		text, err := Template().Stamp(tableNow.Add(c.away-time.Second), time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Template().Decode(text, tableNow); (err == nil) != c.ok {
			t.Errorf("%s away: %v", c.away, err)
		}
	}
}

func TestRedisPyForeverIsNeverAStamp(t *testing.T) {
	in2030 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := RedisPy().Decode("2147483649.0", in2030); !errors.Is(err, ErrImplausible) {
		t.Errorf("a lock without timeout was read as a time: %v", err)
	}
	if got := Identify("2147483649.0", in2030, Hints{})[0].Look; got != LookForever {
		t.Errorf("named as %s", got)
	}
}

func TestValueErrorNamesTheOtherUnit(t *testing.T) {
	for _, c := range []struct {
		d     Dialect
		value string
		names string
	}{
		{Jedis(), "1400000060", "in s "}, {Jedis(), "1400000060124000000", "in ns "},
		{Jedis(), "635355968601240000", "in ticks "},
		{Page(), "1400000060124", "in ms "}, {Jedis(), testUUID + ":1400000060124", "JedisUUID"},
		{JedisUUID(), "1400000060124", "Jedis,"},
		{Jedis(), "\xac\xed\x00\x05t\x00\r1400000060124", "jdk encoding"},
		{Jedis(), `"1400000060124"`, "json encoding"},
		{Jedis(), Tombstone63, "tombstone"},
		{Jedis(), "5000000000000000000", "a guard or another program's 63-bit token"},
		{Jedis(), "lock", "constant"}, {Jedis(), "", "empty"}, {Bare(), "1400000060124", "in ms "},
	} {
		_, err := c.d.Decode(c.value, tableNow)
		var value *ValueError
		if !errors.As(err, &value) || !strings.Contains(err.Error(), c.names) ||
			!strings.Contains(err.Error(), c.d.Name) {
			t.Errorf("%s of %q: %v; want it to name %q", c.d, c.value, err, c.names)
		}
	}
}

func TestValueErrorsFitOneShortLine(t *testing.T) {
	_, err := Jedis().Decode(strings.Repeat("é\n", 5000), tableNow)
	if text := err.Error(); len(text) > 800 || strings.ContainsAny(text, "\n\r\x1b") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}

func TestPastByIsStrictAndCutsServerClock(t *testing.T) {
	page, err := Page().Decode("1400000060", tableNow)
	if err != nil {
		t.Fatal(err)
	}
	jedis, err := Jedis().Decode("1400000060000", tableNow)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		d      Dialect
		s      Stamp
		now    int64 // ms
		margin time.Duration
		want   bool
	}{
		{Page(), page, 1_400_000_060_999, 0, false},
		{Page(), page, 1_400_000_061_000, 0, true},
		{Page(), page, 1_400_000_061_000, time.Second, false},
		{Page(), page, 1_400_000_062_000, time.Second, true},
		// a client whose clock is 900 ms behind still reads the stamp's second
		{Page(), page, 1_400_000_061_899, 900 * time.Millisecond, false},
		{Page(), page, 1_400_000_061_900, 900 * time.Millisecond, true},
		{Jedis(), jedis, 1_400_000_060_000, 0, false},
		{Jedis(), jedis, 1_400_000_060_001, 0, true},
		{Jedis(), jedis, 1_400_000_061_000, time.Second, false},
		// its own clients would take it over; getsetlock is stricter
		{Errorception(), jedis, 1_400_000_060_000, 0, false},
	} {
		if got := c.d.PastBy(c.s, at(c.now), c.margin); got != c.want {
			t.Errorf("%s at %d by %s: %v", c.d, c.now, c.margin, got)
		}
	}
}

func TestCutGoesTowardsThePast(t *testing.T) {
	for d, want := range map[Unit]time.Time{
		UnitSeconds: time.Unix(-1, 0), UnitMillis: time.Unix(0, -1_000_000), UnitNanos: time.Unix(0, -1),
		UnitNone:  time.Unix(0, -1),
		UnitTicks: time.Unix(0, -100),
	} {
		if got := (Dialect{Unit: d}).cut(time.Unix(0, -1)); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
