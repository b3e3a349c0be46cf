// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testUUID = "0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a"

// row is one line of the dialect table. It describes what the client does, not
// its fields.
type row struct {
	dialect Dialect
	value   string // written at 1400000000.123 s with a lease of 30 s, by testUUID or token 42
	// expired: the steps at a value one unit before the clock, equal to it, and
	// one unit after.
	expired string
	nilStep Step
	foreign string // the steps at "abc", "" and "12x"
	// wins: outcomes of a GETSET that returned the same text, another expired
	// one, nil, a live one, "abc".
	wins string
	// release: with its own stamp ahead: its own value seen, a live foreign
	// one, none. With its own stamp past: a live foreign one.
	release string
	ttl     TTLRule
	sends   AcquireCommand
	times   string // lease, poll, wait
}

// table follows the published rows. Where a library's source says more or
// something else, the source wins and docs/reference/dialects.md says so.
var table = []row{
	{Jedis(), "1400000030124", "getset wait wait", StepWait, "fail fail fail", "won lost lost lost lost",
		"del del del del", TTLNone, AcquireSetnx, "1m0s 100ms 10s"},
	{JedisUUID(), testUUID + ":1400000030124", "getset wait wait", StepGetset, "getset getset getset",
		"won lost lost lost lost",
		"del del del del", TTLNone, AcquireSetnx, "1m0s 100ms 10s"},
	{JedisAQS(), "1400000030124", "getset wait wait", StepWait, "fail fail fail", "won won lost lost threw",
		"del del fail del", TTLNone, AcquireSetnx, "0s 0s forever"},
	{Template(), "1400000030123", "getset wait wait", StepGiveUp, "fail give_up fail",
		"won lost lost lost lost",
		"del leave leave leave", TTLNone, AcquireSetnx, "10s 0s 0s"},
	{Page(), "1400000031", "getset wait wait", StepWait, "getset getset getset", "won won lost lost won",
		"del del del leave", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{RedisPy(), "1400000030.1230001", "getset wait wait", StepGetset, "fail getset fail",
		"won won won lost threw",
		"del del leave del", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{TaskTiger(), "1400000030.1230001", "getset wait wait", StepGetset, "wait getset wait",
		"won won won lost lost",
		"del del leave del", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{RedisObjects(), "1400000031.1230001", "getset wait wait", StepGetset, "getset getset getset",
		"won won won lost won",
		"del del del leave", TTLNone, AcquireSetnx, "0s 100ms 5s"},
	{RedisMutex(), "1400000030.1230001", "getset getset wait", StepGetset, "getset getset getset",
		"won won won lost won",
		"del leave leave leave", TTLNone, AcquireSetnx, "10s 100ms 1s"},
	{ResqueTimeout(), "1400000030", "getset setnx_once setnx_once", StepSetnxOnce, "getset getset getset",
		"won won won lost won",
		"del del del leave", TTLNone, AcquireSetnx, "0s 0s 0s"},
	{Errorception(), "1400000030124", "getset getset wait", StepWait, "getset wait getset",
		"won lost lost lost lost",
		"del del del leave", TTLNone, AcquireSetnx, "5s 50ms forever"},
	{Faye(), "1400000030124", "getset getset wait", StepGiveUp, "getset give_up getset",
		"won lost lost lost lost",
		"del del del leave", TTLNone, AcquireSetnx, "2m0s 0s 0s"},
	{ServiceStack(), "1400000030124", "getset getset wait", StepWait, "wait wait wait",
		"won lost lost lost lost",
		"del del del del", TTLNone, AcquireSetnx, "0s 10ms forever"},
	{Kdyby(), "1400000031", "getset wait wait", StepAgain, "getset again getset", "won lost lost lost lost",
		"del del del leave", TTLNone, AcquireSetnx, "15s 7.5ms forever"},
	{Machinery(), "1400000030123000000", "getset wait wait", StepWait, "wait wait wait",
		"won won lost lost lost",
		"leave leave leave leave", TTLGetsetExpire, AcquireSetNXGo, "0s 0s 0s"},
	{Gorlock(), "1400000030123000000", "getset wait wait", StepFail, "fail fail fail",
		"won lost threw lost threw",
		"del del del del", TTLWinExpire, AcquireSetNXGo, "15s 150ms 15s"},
	{PageNil(), "1400000031", "getset wait wait", StepGetset, "getset getset getset", "won won won lost won",
		"del del del del", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{PageGet(), "1400000031", "getset wait wait", StepGetset, "getset getset getset", "won won won lost won",
		"del del leave del", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{Bare(), "lock", "wait wait wait", StepWait, "wait wait wait", "lost lost lost lost lost",
		"del del del del", TTLNone, AcquireSetnx, "0s 100ms forever"},
	{BareExpire(), "lock", "wait wait wait", StepWait, "wait wait wait", "lost lost lost lost lost",
		"del del del del", TTLEverybody, AcquireSetnx, "0s 100ms forever"},
	{SetDel(), "1", "wait wait wait", StepWait, "wait wait wait", "lost lost lost lost lost",
		"del del del del", TTLOnSet, AcquireSetNXEX, "0s 100ms forever"},
	{SetGetDel(), "42", "wait wait wait", StepWait, "wait wait wait", "lost lost lost lost lost",
		"del leave leave leave", TTLOnSet, AcquireSetNXEX, "0s 100ms forever"},
	{SetPexpire(), "42", "wait wait wait", StepWait, "wait wait wait", "lost lost lost lost lost",
		"compare_and_delete compare_and_delete compare_and_delete compare_and_delete", TTLOnSet,
		AcquireSetNXPX, "0s 100ms forever"},
}

var tableNow = at(1_400_000_000_123)

// stampAt is a foreign value of the dialect, at the clock's unit plus away.
func stampAt(t *testing.T, d Dialect, now time.Time, away int64) Reply {
	t.Helper()
	if !d.HasStamp() {
		return Text("stranger")
	}
	count, _ := unitCount(d.Unit, now)
	number := strconv.FormatInt(count+away, 10)
	if d.Unit == UnitFloatSeconds {
		number = pythonFloat(floatSeconds(now) + float64(away)/1e6)
	}
	if d.Shape == ShapeUUIDNumber {
		number = "11111111-2222-4333-8444-555555555555:" + number
	}
	return Text(number)
}

// long is at least 1000 seconds in every unit.
func long(d Dialect) int64 {
	if step := d.Unit.Step(); step > 0 {
		return int64(1000 * time.Second / step)
	}
	return 1
}

func idFor(d Dialect) string {
	if d.Shape == ShapeUUIDNumber {
		return testUUID
	}
	return "42"
}

func TestTableHasRowForEveryPreset(t *testing.T) {
	var rows []string
	for _, r := range table {
		rows = append(rows, r.dialect.Name)
	}
	for _, name := range Names() {
		if !strings.Contains(" "+strings.Join(rows, " ")+" ", " "+name+" ") {
			t.Errorf("no row for %s", name)
		}
	}
	if len(rows) != len(Names()) {
		t.Errorf("%d rows for %d presets", len(rows), len(Names()))
	}
}

func TestTableCellValue(t *testing.T) {
	for _, r := range table {
		got, err := r.dialect.Stamp(tableNow, 30*time.Second, idFor(r.dialect))
		if err != nil || got != r.value {
			t.Errorf("%s writes %q, %v; the table says %q", r.dialect, got, err, r.value)
		}
	}
}

func TestTableCellExpired(t *testing.T) {
	for _, r := range table {
		var got []string
		for _, away := range []int64{-1, 0, 1} {
			got = append(got, string(
				r.dialect.LegacyNext(stampAt(t, r.dialect, tableNow, away), testUUID, tableNow)))
		}
		if s := strings.Join(got, " "); s != r.expired {
			t.Errorf("%s at a stamp before, at, after now: %s; the table says %s", r.dialect, s, r.expired)
		}
	}
}

func TestTableCellNilAndUnreadable(t *testing.T) {
	for _, r := range table {
		if got := r.dialect.LegacyNext(Nil(), testUUID, tableNow); got != r.nilStep {
			t.Errorf("%s at nil: %s; the table says %s", r.dialect, got, r.nilStep)
		}
		var got []string
		for _, text := range []string{"abc", "", "12x"} {
			got = append(got, string(r.dialect.LegacyNext(Text(text), testUUID, tableNow)))
		}
		if s := strings.Join(got, " "); s != r.foreign {
			t.Errorf("%s at abc, empty, 12x: %s; the table says %s", r.dialect, s, r.foreign)
		}
	}
}

func TestTableCellWins(t *testing.T) {
	for _, r := range table {
		d := r.dialect
		seen := stampAt(t, d, tableNow, -long(d))
		var got []string
		for _, old := range []Reply{
			seen, stampAt(t, d, tableNow, -2*long(d)), Nil(), stampAt(t, d, tableNow, long(d)), Text("abc"),
		} {
			if !d.HasTakeover() {
				old = Text("x")
			}
			outcome := d.LegacyWins(old, seen, tableNow)
			// For JedisUUID "abc" counts as expired, but its text does not
			// equal the GET's.
			got = append(got, string(outcome))
		}
		if s := strings.Join(got, " "); s != r.wins {
			t.Errorf("%s after GETSET of same, other expired, nil, live, abc: %s; the table says %s", d, s,
				r.wins)
		}
	}
}

func TestTableCellRelease(t *testing.T) {
	for _, r := range table {
		d := r.dialect
		own := r.value
		live := stampAt(t, d, tableNow, 4*long(d))
		past := tableNow.Add(2 * time.Minute)
		got := []string{
			string(d.LegacyReleases(own, Text(own), tableNow)),
			string(d.LegacyReleases(own, live, tableNow)),
			string(d.LegacyReleases(own, Nil(), tableNow)),
			string(d.LegacyReleases(own, live, past)),
		}
		if s := strings.Join(got, " "); s != r.release {
			t.Errorf("%s releases at own, live, none, own past: %s; the table says %s", d, s, r.release)
		}
	}
}

func TestTableCellTTLAndTimes(t *testing.T) {
	for _, r := range table {
		d := r.dialect
		if d.KeyTTL != r.ttl || d.Acquire != r.sends {
			t.Errorf("%s: TTL %s by %s; the table says %s by %s", d, d.KeyTTL, d.Acquire, r.ttl, r.sends)
		}
		wait := d.Wait.String()
		if d.WaitsForever {
			wait = "forever"
		}
		if got := d.Lease.String() + " " + d.Poll.String() + " " + wait; got != r.times {
			t.Errorf("%s: lease, poll, wait %s; the table says %s", d, got, r.times)
		}
	}
}

func TestReleaseAtBoundariesOfOwnStamp(t *testing.T) {
	for _, c := range []struct {
		d        Dialect
		expected string // one unit before, at and one unit after the own stamp
	}{
		{Page(), "del del leave"}, {ResqueTimeout(), "del del leave"}, {RedisObjects(), "del leave leave"},
		{Errorception(), "del leave leave"}, {Faye(), "del leave leave"}, {Kdyby(), "del leave leave"},
	} {
		own, err := c.d.Stamp(tableNow, 30*time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		stamp, err := c.d.Decode(own, tableNow)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, away := range []time.Duration{-1, 0, 1} {
			got = append(got, string(c.d.LegacyReleases(own, Nil(), stamp.Expiry.Add(away*c.d.Unit.Step()))))
		}
		if s := strings.Join(got, " "); s != c.expected {
			t.Errorf("%s around its own stamp: %s, want %s", c.d, s, c.expected)
		}
	}
}

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

func TestStampInAnotherUnitNeverOrAlwaysExpires(t *testing.T) {
	for _, writer := range Presets() {
		for _, reader := range Presets() {
			ws, rs := writer.Unit.Step(), reader.Unit.Step()
			if writer.Shape != ShapeNumber || reader.Shape != ShapeNumber ||
				writer.Unit == UnitFloatSeconds || reader.Unit == UnitFloatSeconds || ws == rs {
				continue
			}
			text, err := writer.Stamp(tableNow, time.Minute, "")
			if err != nil {
				t.Fatal(err)
			}
			for _, away := range []time.Duration{0, 24 * time.Hour} {
				got := reader.LegacyExpired(Text(text), "", tableNow.Add(away))
				if got != (ws > rs) {
					t.Errorf("%s reads %s's stamp after %s: expired %v", reader, writer, away, got)
				}
			}
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
