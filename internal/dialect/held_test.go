// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOrMineTakesOverItsOwnLiveValue(t *testing.T) {
	mine := Text(testUUID + ":9000000000000000000")
	if got := JedisUUID().LegacyNext(mine, testUUID, tableNow); got != StepGetset {
		t.Errorf("JedisUUID at its own uuid: %s", got)
	}
	if got := JedisUUID().LegacyNext(mine, "11111111-2222-4333-8444-555555555555",
		tableNow); got != StepWait {
		t.Errorf("JedisUUID at another client's guard: %s", got)
	}
	upper := Text(strings.ToUpper(testUUID) + ":9000000000000000000")
	if got := JedisUUID().LegacyNext(upper, testUUID, tableNow); got != StepGetset {
		t.Errorf("Java compares uuids, not texts: %s", got)
	}
}

func TestNoValueProtectsAgainstBothJedisLocks(t *testing.T) {
	bare, both := Text("9000000000000000000"), Text(testUUID+":9000000000000000000")
	for _, c := range []struct {
		d     Dialect
		value Reply
		want  Step
	}{
		{Jedis(), bare, StepWait}, {JedisUUID(), bare, StepGetset}, {Jedis(), both, StepFail},
		{JedisUUID(), both, StepWait},
	} {
		if got := c.d.LegacyNext(c.value, "", tableNow); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.d, c.value.Value, got, c.want)
		}
	}
}

func TestEveryLegacyReaderHoldsGuardAndTombstone(t *testing.T) {
	for _, d := range Presets() {
		low, high := d.GuardRange()
		for _, n := range []int64{low, low + 1, high} {
			guard, ok := d.Guard(n, testUUID)
			if !ok {
				t.Fatalf("%s: guard %d refused", d, n)
			}
			for _, text := range []string{guard, d.Tombstone()} {
				step := d.LegacyNext(Text(text), "", at(3_786_912_000_000))
				if step != StepWait && step != StepSetnxOnce {
					t.Errorf("%s at %s: %s, in the year 2090", d, text, step)
				}
			}
			if guard == d.Tombstone() {
				t.Errorf("%s draws its tombstone", d)
			}
		}
		for _, n := range []int64{low - 1, high + 1} {
			if _, ok := d.Guard(n, testUUID); ok {
				t.Errorf("%s: guard %d is outside the range", d, n)
			}
		}
		if _, ok := d.Guard(low, "no uuid"); ok != (d.Shape != ShapeUUIDNumber) {
			t.Errorf("%s: a guard's uuid is not checked", d)
		}
	}
}

func TestTickGuardsStayBelowLastDotNetTick(t *testing.T) {
	d := ServiceStack()
	d.Unit, d.Slack = UnitTicks, 0
	_, high := d.GuardRange()
	if last, _ := unitCount(UnitTicks,
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC)); high != last-1 ||
		d.Tombstone() != strconv.FormatInt(last, 10) {
		t.Errorf("guards up to %d, tombstone %s, last tick %d", high, d.Tombstone(), last)
	}
}

// getsetsMissing reports whether clients answer nil to the GET with a GETSET. A
// client that saw the key free just before a getsetlock client took it then
// overwrites that client's value.
func getsetsMissing(d Dialect) bool { return d.HasTakeover() && d.OnNil == NilGetset }

// releaseIgnoresOwner reports whether a release may delete another client's
// value, even a tombstone: the releaser checks neither its own value nor its
// own time.
func releaseIgnoresOwner(d Dialect) bool {
	return slices.Contains([]ReleaseRule{ReleaseDel, ReleaseValueLive, ReleaseValueAtLeastOwn}, d.Release)
}

func TestPredicatesSelectTheRightDialects(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(Dialect) bool
		want string
	}{
		{"two writers may write the same bytes", Dialect.TwoWritersMaySameBytes, "Bare BareExpire SetDel"},
		{"clients do not exclude each other", func(d Dialect) bool { return !d.Excludes() }, "JedisUUID"},
		{"settle after every acquisition", Dialect.NeedsSettleEvery, "JedisUUID"},
		{"GETSET of a missing key", getsetsMissing,
			"JedisUUID PageGet PageNil RedisMutex RedisObjects RedisPy TaskTiger"},
		{"no takeover", func(d Dialect) bool { return !d.HasTakeover() },
			"Bare BareExpire SetDel SetGetDel SetPexpire"},
		{"never released", Dialect.NeverReleases, "Machinery"},
		{"release may delete a tombstone", releaseIgnoresOwner, "Bare BareExpire Gorlock Jedis JedisAQS JedisUUID PageGet PageNil RedisPy ServiceStack SetDel TaskTiger"},
		{"server expires the key", Dialect.ServerExpires,
			"BareExpire Gorlock Machinery SetDel SetGetDel SetPexpire"},
		{"has no stamp", func(d Dialect) bool { return !d.HasStamp() },
			"Bare BareExpire SetDel SetGetDel SetPexpire"},
		{"taken by SET NX PX", func(d Dialect) bool { return d.Acquire == AcquireSetNXPX }, "SetPexpire"},
		{"taken by SET NX EX", func(d Dialect) bool { return d.Acquire == AcquireSetNXEX }, "SetDel SetGetDel"},
		{"GETSET reads the clock anew", func(d Dialect) bool { return d.Restamp },
			"Errorception Gorlock Kdyby RedisObjects"},
	} {
		var got []string
		for _, d := range Presets() {
			if c.of(d) {
				got = append(got, d.Name)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s; want %s", c.name, s, c.want)
		}
	}
}

func TestNilAndEmptyNeverCountAsSameText(t *testing.T) {
	d := Template() // this copy takes a missing key for an expired one
	d.OnNil = NilGetset
	if got := d.LegacyWins(Text(""), Text(""), tableNow); got != Lost {
		t.Errorf("isEmpty guards the comparison: %s", got)
	}
	if got := d.LegacyWins(Nil(), Nil(), tableNow); got != Lost {
		t.Errorf("nil equals nil: %s", got)
	}
	if got := d.LegacyReleases("", Nil(), tableNow); got != ReleaseLeaves {
		t.Errorf("no client owns a missing key: %s", got)
	}
}

func TestClientWithoutUUIDOwnsNothing(t *testing.T) {
	d := JedisUUID()
	d.Unreadable = UnreadableHeld
	if got := d.LegacyNext(Text("abc"), "", tableNow); got != StepWait {
		t.Errorf("no uuid on the key and none of its own are not the same uuid: %s", got)
	}
}

func TestWholeNumbersAreComparedInTheUnit(t *testing.T) {
	d := RedisPy() // a Ruby program uses the same keys
	d.Reader, d.Unreadable = ReadRubyInt, UnreadableZero
	for text, want := range map[string]bool{"1400000000": true, "1400000001": false} {
		if got := d.LegacyExpired(Text(text), "", tableNow); got != want {
			t.Errorf("%s against 1400000000.123: expired %v", text, got)
		}
	}
}

func TestClockBeyondUnitIsAheadOfEverything(t *testing.T) {
	in2300 := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := Gorlock().LegacyNext(Text("9223372036854775806"), "", in2300); got != StepGetset {
		t.Errorf("nanoseconds end in 2262: %s", got)
	}
}
