// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// errInvalid is wrapped by every error of Validate.
var errInvalid = errors.New("no valid dialect")

// Validate checks every field against its bounds and against the others. The
// error names the field, as in JSON, and the bound.
func (d Dialect) Validate() error {
	if _, err := Lookup(d.Name); err != nil && d.Name != "" && d == (Dialect{Name: d.Name}) {
		return fmt.Errorf("%w: %w", errInvalid, err) // it is named, and not described
	}
	return d.check()
}

// check is Validate for a dialect that is described.
func (d Dialect) check() error {
	for _, check := range []func() error{
		d.checkNames, d.checkChoices, d.checkShape, d.checkTakeover, d.checkTTL, d.checkTimes,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", errInvalid, err)
		}
	}
	return nil
}

func (d Dialect) checkNames() error {
	const longest = 64
	switch {
	case d.Name == "" || len(d.Name) > longest:
		return fmt.Errorf("field name: 1 to %d bytes, got %d", longest, len(d.Name))
	case strings.Trim(Fold(d.Name), "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return fmt.Errorf("field name: letters, digits, hyphens and underscores, got %q", d.Name)
	case Fold(d.Name) == "":
		return fmt.Errorf("field name: at least one letter or digit, got %q", d.Name)
	case strings.Count(d.KeyPattern, "NAME") != 1 || !utf8.ValidString(d.KeyPattern):
		return fmt.Errorf("field key_pattern: NAME exactly once, got %q", d.KeyPattern)
	}
	return nil
}

// choice is a field with its possible values.
type choice struct {
	field, value string
	allowed      []string
}

func (d Dialect) checkChoices() error {
	for _, c := range choices(d) {
		if !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("field %s: one of %s, got %q", c.field, strings.Join(c.allowed, ", "), c.value)
		}
	}
	return nil
}

// choices lists every field that takes one of a few words.
func choices(d Dialect) []choice {
	return []choice{
		{"unit", string(d.Unit), texts(UnitMillis, UnitSeconds, UnitFloatSeconds, UnitNanos, UnitTicks,
			UnitNone)},
		{"shape", string(d.Shape), texts(ShapeNumber, ShapeUUIDNumber, ShapeConstant, ShapeToken,
			ShapeDecimal)},
		{"reader", string(d.Reader),
			texts(ReadJavaLong, ReadJavaUUID, ReadPythonFloat, ReadRubyFloat, ReadRubyInt,
				ReadJSParseFloat, ReadJSParseInt, ReadPHP7, ReadPHP8, ReadDotNetLong, ReadGoInt,
				ReadNothing)},
		{"empty", string(d.Empty), texts(EmptyIsText, EmptyIsNil, EmptyZeroIsNil, EmptyZeroIsHeld)},
		{"on_nil", string(d.OnNil), texts(NilWaits, NilGetset, NilGivesUp, NilSetnx, NilError, NilErrorRetry,
			NilNever)},
		{"unreadable", string(d.Unreadable), texts(UnreadableThrows, UnreadableExpired, UnreadableHeld,
			UnreadableZero, UnreadableNaN, UnreadableErrorRetry)},
		{"wins", string(d.Wins), texts(WinsSameText, WinsExpired, WinsExpiredOrNil, WinsEqualNumber,
			WinsNever)},
		{"acquire", string(d.Acquire), texts(AcquireSetnx, AcquireSetNXPX, AcquireSetNXEX, AcquireSetNXGo)},
		{"key_ttl", string(d.KeyTTL),
			texts(TTLNone, TTLOnSet, TTLGetsetExpire, TTLWinExpire, TTLAfterSetnx, TTLEverybody)},
		{"release", string(d.Release),
			texts(ReleaseDel, ReleaseValueLive, ReleaseValueOwn, ReleaseValueAtLeastOwn,
				ReleaseOwnNotPast, ReleaseOwnAhead, ReleaseCompare, ReleaseNever)},
		{"renews", string(d.Renews),
			texts(RenewsNever, RenewsReacquire, RenewsGetset, RenewsSet, RenewsPexpire)},
		{"key_encoding", string(d.KeyEncoding), texts(Plain, JDK, JSON)},
		{"value_encoding", string(d.ValueEncoding), texts(Plain, JDK, JSON)},
	}
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func (d Dialect) checkShape() error {
	switch {
	case d.HasStamp() && d.Unit == UnitNone:
		return fmt.Errorf("field unit: shape %s has a number, so it can't be none", d.Shape)
	case !d.HasStamp() && d.Unit != UnitNone:
		return fmt.Errorf("field unit: shape %s has no time, so it must be none, got %q", d.Shape, d.Unit)
	case d.HasStamp() != (d.Reader != ReadNothing):
		return fmt.Errorf("field reader: none exactly where the shape has no time, got %q", d.Reader)
	case (d.Shape == ShapeUUIDNumber) != (d.Reader == ReadJavaUUID):
		return fmt.Errorf("field reader: %s goes with shape %s only, got %q", ReadJavaUUID, ShapeUUIDNumber,
			d.Reader)
	case (d.Shape == ShapeConstant) != (d.Constant != ""):
		return fmt.Errorf("field constant: required with shape %s and with no other, got %q", ShapeConstant,
			d.Constant)
	case d.OrMine && d.Shape != ShapeUUIDNumber:
		return fmt.Errorf("field or_mine: only shape %s names a value's writer", ShapeUUIDNumber)
	}
	if _, err := d.EncodeValue(d.Constant); err != nil {
		return fmt.Errorf("field constant: %w", err)
	}
	if _, err := d.EncodeKey(d.KeyPattern); err != nil {
		return fmt.Errorf("field key_pattern: %w", err)
	}
	return nil
}

// fault is one way in which fields contradict each other.
type fault struct {
	present bool
	says    string
	args    []any
}

// first returns the error of the first fault that is present, or nil.
func first(faults []fault) error {
	for _, f := range faults {
		if f.present {
			return fmt.Errorf("field "+f.says, f.args...)
		}
	}
	return nil
}

// releasesByTime are the releases that compare the time in a value.
var releasesByTime = []ReleaseRule{ReleaseOwnAhead, ReleaseOwnNotPast, ReleaseValueLive,
	ReleaseValueAtLeastOwn}

func (d Dialect) checkTakeover() error {
	endless := d.OnNil == NilSetnx && !d.SetnxAfterHeld && !d.WaitsForever && d.Wait == 0 && d.Attempts == 0
	return first([]fault{
		{d.HasTakeover() && !d.HasStamp(), "wins: never, since shape %s has no time to judge, got %q",
			[]any{d.Shape, d.Wins}},
		{d.HasTakeover() == (d.OnNil == NilNever), "on_nil: never exactly where wins is never, got %q",
			[]any{d.OnNil}},
		{d.StartTime && (!d.HasStamp() || d.Lease == 0),
			"start_time: needs a time in the value, and a lease that readers add to it", nil},
		{d.SleepsToStamp && !d.HasStamp(), "sleeps_to_stamp: shape %s has no time to sleep to",
			[]any{d.Shape}},
		{d.SetnxAfterHeld && d.OnNil != NilSetnx, "setnx_after_held: only with on_nil %s, got %q",
			[]any{NilSetnx, d.OnNil}},
		{slices.Contains(releasesByTime, d.Release) && !d.HasStamp(), "release: %s needs a time in the value",
			[]any{d.Release}},
		{endless, "wait: with on_nil %s set wait, waits_forever or attempts", []any{NilSetnx}},
	})
}

func (d Dialect) checkTTL() error {
	set := d.Acquire != AcquireSetnx
	onSet := d.KeyTTL == TTLOnSet || d.KeyTTL == TTLGetsetExpire || d.KeyTTL == TTLWinExpire
	switch {
	case set && !onSet:
		return fmt.Errorf("field key_ttl: acquire %s carries a TTL, got %q", d.Acquire, d.KeyTTL)
	case !set && onSet:
		return fmt.Errorf("field key_ttl: %s needs an acquire that carries a TTL, got %q", d.KeyTTL,
			d.Acquire)
	case d.KeyTTL == TTLGetsetExpire && !d.HasTakeover():
		return fmt.Errorf("field key_ttl: %s needs a takeover, but wins is never", d.KeyTTL)
	}
	return nil
}

func (d Dialect) checkTimes() error {
	const longestPoll, longestWait = time.Hour, 366 * 24 * time.Hour
	for _, t := range []struct {
		field       string
		value, most time.Duration
	}{
		{"slack", d.Slack, time.Hour}, {"lease", d.Lease, LongestStamp},
		{"poll", d.Poll, longestPoll}, {"wait", d.Wait, longestWait},
	} {
		if t.value < 0 || t.value > t.most {
			return fmt.Errorf("field %s: 0s to %s, got %s", t.field, t.most, t.value)
		}
	}
	step := max(1, d.Unit.Step())
	cut := d.CutLease || d.Unit == UnitFloatSeconds
	return first([]fault{
		{d.Slack%step != 0, "slack: a whole number of %s, got %s", []any{step, d.Slack}},
		{!cut && d.Lease%step != 0, "lease: a whole number of %s, got %s", []any{step, d.Lease}},
		{d.WaitsForever && d.Wait != 0, "wait: must be 0s with waits_forever, got %s", []any{d.Wait}},
		{d.CountsSleeps && d.Poll == 0, "poll: positive with counts_sleeps, got %s", []any{d.Poll}},
		{d.Attempts < 0 || d.Attempts > 1_000_000, "attempts: 0 to 1000000, got %d", []any{d.Attempts}},
	})
}
