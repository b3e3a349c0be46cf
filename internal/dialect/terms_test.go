// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func filled(t *testing.T, d Dialect, terms Terms) Terms {
	t.Helper()
	got, err := d.Terms(terms)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTermsDefaults(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		d     Dialect
		given Terms
		want  Terms
		ttl   time.Duration
	}{
		{Jedis(), Terms{}, Terms{Lease: 60 * s, Greatest: Unstated, Spread: s, Gap: s}, 30 * s},
		{Errorception(), Terms{}, Terms{
			Lease: 5 * s, Greatest: Unstated, Spread: 250 * time.Millisecond, Gap: 250 * time.Millisecond},
			2500 * time.Millisecond},
		{Kdyby(), Terms{}, Terms{Lease: 15 * s, Greatest: Unstated, Spread: 750 * time.Millisecond,
			Gap: 750 * time.Millisecond}, 7500 * time.Millisecond},
		{Faye(), Terms{}, Terms{Lease: 120 * s, Greatest: Unstated, Spread: s, Gap: s}, 30 * s},
		{Jedis(), Terms{Lease: 60 * s}, Terms{Lease: 60 * s, Greatest: 60 * s, Spread: s, Gap: s}, 30 * s},
		{RedisPy(), Terms{Lease: 40 * s}, Terms{Lease: 40 * s, Greatest: 40 * s, Spread: s, Gap: s}, 20 * s},
		{Jedis(), Terms{Greatest: 90 * s, Spread: 2 * s, Gap: 3 * s},
			Terms{Lease: 60 * s, Greatest: 90 * s, Spread: 2 * s, Gap: 3 * s}, 30 * s},
		{Jedis(), Terms{Spread: Zero, Gap: Zero, Behind: Zero, Ahead: 2 * s},
			Terms{Lease: 60 * s, Greatest: Unstated, Spread: Zero, Gap: Zero, Behind: Zero, Ahead: 2 * s},
			30 * s},
		{Bare(), Terms{}, Terms{Greatest: Unstated}, 30 * s},
		{SetDel(), Terms{}, Terms{Greatest: Unstated}, 30 * s},
	} {
		got := filled(t, c.d, c.given)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.d, got, c.want)
		}
		if again := filled(t, c.d, got); again != got {
			t.Errorf("%s: completed twice: %+v, want %+v", c.d, again, got)
		}
		if ttl := got.DefaultTTL(); ttl != c.ttl {
			t.Errorf("%s: TTL %s, want %s", c.d, ttl, c.ttl)
		}
	}
}

func TestTermsRefuse(t *testing.T) {
	for _, c := range []struct {
		d     Dialect
		terms Terms
		want  error
		names string
	}{
		{RedisPy(), Terms{}, ErrNoLease, "RedisPy"},
		{BareExpire(), Terms{}, ErrNoLease, "BareExpire"},
		{Jedis(), Terms{Lease: -1}, errTerms, "Lease"},
		{Jedis(), Terms{Gap: -1}, errTerms, "Gap"},
		{Jedis(), Terms{Behind: -1}, errTerms, "Behind"},
		{Jedis(), Terms{Ahead: -1}, errTerms, "Ahead"},
		{Jedis(), Terms{Greatest: time.Second}, errTerms, "Greatest 1s is less than Lease 1m0s"},
		{Jedis(), Terms{Spread: 30 * time.Second, Gap: 31 * time.Second}, errTerms, "Spread 30s and Gap 31s"},
	} {
		got, err := c.d.Terms(c.terms)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %+v: %v; want %v naming %q", c.d, c.terms, err, c.want, c.names)
		}
		if got != (Terms{}) {
			t.Errorf("%+v with an error", got)
		}
	}
}

func TestCLosesOneUnitWhereEqualExpires(t *testing.T) {
	want := map[string]time.Duration{
		"Jedis": time.Millisecond, "JedisUUID": time.Millisecond, "JedisAQS": time.Millisecond, "Template": 0,
		"Page":    time.Second,
		"PageNil": time.Second, "PageGet": time.Second, "RedisPy": 0, "TaskTiger": 0,
		"RedisObjects": time.Second, "RedisMutex": 0,
		"ResqueTimeout": 0, "Errorception": 0, "Faye": 0, "ServiceStack": 0, "Kdyby": time.Second,
		"Machinery": 0, "Gorlock": 0,
	}
	for _, d := range Presets() {
		if d.HasTakeover() && d.EffectiveSlack() != want[d.Name] {
			t.Errorf("%s: c = %s, want %s", d, d.EffectiveSlack(), want[d.Name])
		}
	}
	d := Jedis()
	d.Inclusive, d.Slack = true, 0
	if d.EffectiveSlack() != -time.Millisecond {
		t.Errorf("without slack and inclusive: %s", d.EffectiveSlack())
	}
}

// The test draws holders' and challengers' clocks: the law's c is the most that
// may be added to the lease.
func TestNoChallengerExpiresAStampBeforeEPlusC(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lease := 30 * time.Second
	for _, d := range Presets() {
		if !d.HasTakeover() {
			continue
		}
		closest := time.Hour
		for range 4000 {
			wrote := time.Unix(1_400_000_000, random.Int64N(int64(10*time.Second)))
			text, err := d.Stamp(wrote, lease, testUUID)
			if err != nil {
				t.Fatal(err)
			}
			later := lease + d.EffectiveSlack() + time.Duration(random.Int64N(int64(2*d.Unit.Step()+2)))
			if d.Unit == UnitFloatSeconds {
				later += time.Microsecond
			}
			if d.LegacyExpired(Text(text), "", wrote.Add(later)) {
				closest = min(closest, later-lease-d.EffectiveSlack())
			}
			early := lease + d.EffectiveSlack() - time.Duration(random.Int64N(int64(2*d.Unit.Step()+1)))
			if d.Unit == UnitFloatSeconds {
				early -= time.Microsecond // a double keeps no more
			}
			if early < lease+d.EffectiveSlack() && d.LegacyExpired(Text(text), "", wrote.Add(early)) {
				t.Fatalf("%s: %s written at %s expires after %s already", d, text, wrote, early)
			}
		}
		if closest > 2*max(d.Unit.Step(), 2*time.Microsecond) {
			t.Errorf("%s: c could be greater by %s", d, closest)
		}
	}
}

func TestLeaseRuleAtItsBound(t *testing.T) {
	ms := time.Millisecond
	terms := filled(t, Jedis(), Terms{Spread: 200 * ms, Gap: 500 * ms})
	longest, bound := Jedis().LongestLease(terms)
	if want := 60*time.Second + ms - 200*ms - 500*ms; !bound || longest != want {
		t.Fatalf("longest lease %s, want %s", longest, want)
	}
	if err := Jedis().CheckLease(longest, terms); err != nil {
		t.Error(err)
	}
	for d, want := range map[Dialect]time.Duration{
		Errorception(): 0, Page(): time.Second, Template(): 0, RedisObjects(): time.Second} {
		if got, _ := d.LongestLease(terms); got != 60*time.Second+want-700*ms {
			t.Errorf("%s: longest lease %s, want 59.3s + %s", d, got, want)
		}
	}
	err := Jedis().CheckLease(longest+1, terms)
	if !errors.Is(err, errLeaseRule) {
		t.Fatalf("one nanosecond more: %v", err)
	}
	for _, part := range []string{"TTL", "Lease 1m0s", "Spread 200ms", "Gap 500ms", "59.301s", "Jedis"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	if err := Jedis().CheckLease(0, terms); !errors.Is(err, errLeaseRule) {
		t.Errorf("TTL 0: %v", err)
	}
}

func TestOnlyWaitersEXPIREBoundsLeaseWithoutTakeover(t *testing.T) {
	for _, d := range []Dialect{Bare(), SetDel(), SetGetDel(), SetPexpire()} {
		if err := d.CheckLease(24*time.Hour, filled(t, d, Terms{Lease: time.Second})); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	terms := filled(t, BareExpire(), Terms{Lease: 10 * time.Second})
	if err := BareExpire().CheckLease(10*time.Second, terms); err != nil {
		t.Error(err)
	}
	if err := BareExpire().CheckLease(10*time.Second+1, terms); !errors.Is(err, errLeaseRule) ||
		!strings.Contains(err.Error(), "Lease 10s") {
		t.Errorf("beyond what a waiter's EXPIRE leaves: %v", err)
	}
}

func TestLeaseMustExceedSettleMarginAndRenewal(t *testing.T) {
	s := time.Second
	if err := CheckTimes(10*s, 1100*time.Millisecond, s, 3*s); err != nil {
		t.Error(err)
	}
	err := CheckTimes(5*s, s, s, 3*s)
	if !errors.Is(err, errLeaseRule) {
		t.Fatalf("equal is not longer: %v", err)
	}
	for _, part := range []string{"TTL 5s", "settle 1s", "Margin 1s", "RenewEvery 3s"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

func TestDefaultsFitEachOther(t *testing.T) {
	for _, d := range Presets() {
		for _, lease := range []time.Duration{2 * time.Second, 5 * time.Second, time.Minute, time.Hour} {
			terms := filled(t, d, Terms{Lease: lease})
			ttl := terms.DefaultTTL()
			if err := d.Fits(ttl, ttl/3, terms.DefaultMargin(ttl), terms); err != nil {
				t.Errorf("%s with lease %s: %v", d, lease, err)
			}
		}
	}
}

func TestSettleIsLongerThanGap(t *testing.T) {
	terms := filled(t, JedisUUID(), Terms{})
	if terms.Settle() != terms.Gap+100*time.Millisecond || terms.TakeoverMargin() != terms.Spread {
		t.Errorf("settle %s, takeover margin %s of %+v", terms.Settle(), terms.TakeoverMargin(), terms)
	}
	if err := Bare().Fits(time.Second, 900*time.Millisecond, 50*time.Millisecond,
		Terms{Gap: time.Hour}); err != nil {
		t.Errorf("nothing settles where nothing is taken over: %v", err)
	}
}

// The margin is the time to stop; how far a fleet is ahead lies in the stamp.
func TestMarginIsTenthOfTTLWhateverTheClocks(t *testing.T) {
	terms := Terms{Spread: 5 * time.Second, Ahead: 10 * time.Minute}
	if got := terms.DefaultMargin(30 * time.Second); got != 3*time.Second {
		t.Errorf("%s", got)
	}
}

func TestTakeoverMarginIsGreaterOfSpreadAndBehind(t *testing.T) {
	for _, c := range []struct {
		terms Terms
		want  time.Duration
	}{
		{Terms{Spread: 2 * time.Second}, 2 * time.Second},
		{Terms{Spread: 2 * time.Second, Behind: Zero}, 2 * time.Second},
		{Terms{Spread: 2 * time.Second, Behind: time.Second}, 2 * time.Second},
		{Terms{Spread: 2 * time.Second, Behind: time.Minute}, time.Minute},
		{Terms{Spread: Zero, Behind: Zero}, 0},
	} {
		if got := c.terms.TakeoverMargin(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.terms, got, c.want)
		}
	}
}

func TestStampLiesDayAndAheadBeyondLease(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{
		0: 24 * time.Hour, Zero: 24 * time.Hour, 10 * time.Minute: 24*time.Hour + 10*time.Minute,
	} {
		if got := (Terms{Ahead: ahead}).StampAhead(); got != want {
			t.Errorf("ahead %d: %s, want %s", ahead, got, want)
		}
	}
}

func TestLookAgeExceedsGreatestLease(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		want time.Duration
	}{
		{Jedis(), 90*time.Second + 2*time.Millisecond}, // the slack and the unit
		{Page(), 92 * time.Second},
		{Faye(), 90*time.Second + time.Millisecond},       // inclusive, so the slack is used up
		{RedisMutex(), 90*time.Second + time.Microsecond}, // floats have microseconds as unit
	} {
		if got, ok := (Terms{Greatest: 90 * time.Second}).LookAge(c.d); got != c.want || !ok {
			t.Errorf("%s: %s, %t, want %s", c.d, got, ok, c.want)
		}
	}
	for _, greatest := range []time.Duration{0, Unstated} {
		if got, ok := (Terms{Greatest: greatest}).LookAge(Jedis()); ok {
			t.Errorf("greatest %d: %s", greatest, got)
		}
	}
}

func TestZeroClaimsZeroAndUnsetClaimsNothing(t *testing.T) {
	for field, want := range map[time.Duration]struct {
		d       time.Duration
		claimed bool
	}{0: {0, false}, Zero: {0, true}, time.Second: {time.Second, true}} {
		if d, claimed := Claimed(field); d != want.d || claimed != want.claimed {
			t.Errorf("Claimed(%d) = %s, %t", field, d, claimed)
		}
		if want.claimed && Claim(want.d) != field {
			t.Errorf("Claim(%s) = %d, want %d", want.d, Claim(want.d), field)
		}
	}
	exact := filled(t, Jedis(), Terms{Spread: Zero, Gap: Zero})
	if longest, _ := Jedis().LongestLease(exact); longest != time.Minute+time.Millisecond {
		t.Errorf("LongestLease %s of a fleet without spread and gap", longest)
	}
	if exact.Settle() != settleBeyondGap {
		t.Errorf("Settle %s without a gap", exact.Settle())
	}
}
