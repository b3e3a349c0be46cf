// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrBadID is wrapped by the error of an identity that the dialect cannot
// write. The caller can make another one with [Dialect.NewID].
var ErrBadID = errors.New("identity doesn't fit the dialect")

// The other reasons why Stamp fails. The error's text names the field and the
// bound.
var (
	errBadLease = errors.New("lease can't be stamped")
	errBadClock = errors.New("clock can't be stamped")
	errOverflow = errors.New("expiry overflows the dialect's unit")
)

// LongestStamp is the longest lease that can be stamped: readers take no number
// further ahead for a stamp.
const LongestStamp = plausibleAhead

// lastYear bounds every stamp: later instants have no RFC 3339 form, and .NET
// has no ticks for them.
const lastYear = 9999

// Stamp returns the exact text that the dialect's client writes when its clock
// shows now. [Dialect.EncodeValue] makes bytes of it. id is the client's own
// part of the value: the uuid in ShapeUUIDNumber, the token in ShapeToken and
// ShapeDecimal. Other shapes ignore it. now is cut to the dialect's unit, as
// the old clients do.
//
// Stamp fails, with an empty text, in three cases:
//   - the lease is not positive, longer than LongestStamp, or not a whole
//     number of units (unless the dialect cuts);
//   - the clock is before 1970;
//   - the expiry is after the year 9999 or beyond 63 bits.
func (d Dialect) Stamp(now time.Time, lease time.Duration, id string) (string, error) {
	if lease <= 0 {
		return "", fmt.Errorf("%w: %s is not positive", errBadLease, lease)
	}
	switch d.Shape {
	case ShapeConstant:
		return d.Constant, nil
	case ShapeNumber:
		return d.stampNumber(now, lease)
	}
	if err := d.checkID(id); err != nil {
		return "", err
	}
	if d.Shape != ShapeUUIDNumber {
		return id, nil
	}
	number, err := d.stampNumber(now, lease)
	if err != nil {
		return "", err
	}
	return id + ":" + number, nil
}

func (d Dialect) stampNumber(now time.Time, lease time.Duration) (string, error) {
	if lease > LongestStamp {
		return "", fmt.Errorf("%w: %s is more than %s", errBadLease, lease, LongestStamp)
	}
	if now.Unix() < 0 {
		return "", fmt.Errorf("%w: %s is before 1970", errBadClock, now.UTC().Format(time.RFC3339))
	}
	if now.Add(lease+d.Slack).Year() > lastYear {
		return "", fmt.Errorf("%w: it lies after the year %d", errOverflow, lastYear)
	}
	ahead := lease + d.Slack - d.added()
	if d.Unit == UnitFloatSeconds {
		return pythonFloat(floatSeconds(now) + ahead.Seconds()), nil
	}
	step := d.Unit.Step()
	if ahead%step != 0 && !d.CutLease {
		return "", fmt.Errorf("%w: %s is not a whole number of %s, and %s writes only whole ones",
			errBadLease, lease, step, d.Name)
	}
	count, ok := unitCount(d.Unit, now)
	more := int64(ahead / step)
	if !ok || more > 0 && count > math.MaxInt64-more || count+more < 0 {
		return "", fmt.Errorf("%w: %s + %s in %s", errOverflow, now.UTC().Format(time.RFC3339), lease, d.Unit)
	}
	return strconv.FormatInt(count+more, 10), nil
}

// added is what a reader adds to the number in a value.
func (d Dialect) added() time.Duration {
	if d.StartTime {
		return d.Lease
	}
	return 0
}

// floatSeconds returns the double that Python's time.time() and Ruby's
// Time#to_f make of an instant: nanoseconds as a double, then divided.
// RedisObjects adds the lease to a Time before that. For whole seconds that
// gives the same digits; for fractions Ruby's last digit can differ.
func floatSeconds(t time.Time) float64 {
	if nanos, ok := unitCount(UnitNanos, t); ok {
		return float64(nanos) / 1e9
	}
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// pythonFloat returns the shortest text that reads back as f, always with a
// fraction. Below 10^16, where all stamps lie, that is Python's repr and Ruby's
// to_s.
func pythonFloat(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// ticksAt1970 is 1970 in .NET ticks.
const ticksAt1970 = 621_355_968_000_000_000

// unitCount returns the number of whole units at t, cut towards the past as all
// the clients do, and whether it fits 63 bits. Float seconds count in steps of
// a microsecond.
func unitCount(u Unit, t time.Time) (int64, bool) {
	seconds := t.Unix()
	perSecond := int64(1)
	if step := u.Step(); step != 0 {
		perSecond = int64(time.Second / step)
	}
	base := int64(0)
	if u == UnitTicks {
		base = ticksAt1970
	}
	if seconds > (math.MaxInt64-base)/perSecond-1 || seconds < math.MinInt64/perSecond+1 {
		return 0, false
	}
	return base + seconds*perSecond + int64(t.Nanosecond())*perSecond/int64(time.Second), true
}

// unitTime returns the instant of a count, the inverse of unitCount.
func unitTime(u Unit, count int64) time.Time {
	if u == UnitTicks {
		count -= ticksAt1970
	}
	perSecond := int64(time.Second / u.Step())
	seconds, rest := count/perSecond, count%perSecond
	if rest < 0 {
		seconds, rest = seconds-1, rest+perSecond
	}
	return time.Unix(seconds, rest*int64(u.Step())).UTC()
}

// checkID refuses an identity with which the value could not be read back.
func (d Dialect) checkID(id string) error {
	switch {
	case d.Shape == ShapeUUIDNumber && !isUUID(id):
		return fmt.Errorf("%w: %s needs a uuid of 36 characters in lower case", ErrBadID, d.Name)
	case d.Shape == ShapeDecimal && !isDecimal63(id):
		return fmt.Errorf("%w: %s needs a decimal of up to 63 bits", ErrBadID, d.Name)
	case id == "":
		return fmt.Errorf("%w: %s needs a token", ErrBadID, d.Name)
	}
	return nil
}

// isUUID accepts what Java's UUID.toString writes, and nothing else.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isDecimal63 accepts what a decimal formatter writes for 0 to 2^63-1: no sign,
// no leading zero.
func isDecimal63(s string) bool {
	if len(s) == 0 || len(s) > 19 || (s[0] == '0' && len(s) > 1) {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) < 19 || s <= Tombstone63
}

// NewID makes an identity of the dialect from the caller's 16 random bytes: a
// version 4 uuid, a decimal of 63 bits, or 32 hex digits. Other shapes contain
// no identity, and it is empty.
func (d Dialect) NewID(random [16]byte) string {
	switch d.Shape {
	case ShapeUUIDNumber:
		random[6] = random[6]&0x0f | 0x40
		random[8] = random[8]&0x3f | 0x80
		h := fmt.Sprintf("%x", random)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	case ShapeDecimal:
		var n uint64
		for _, b := range random[:8] {
			n = n<<8 | uint64(b)
		}
		return strconv.FormatUint(n>>1, 10)
	case ShapeToken:
		return fmt.Sprintf("%x", random)
	}
	return ""
}
