// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds around the server's clock within which getsetlock takes a number for a
// stamp. They exclude the "1" of a lock without expiry, thread ids, other
// units, guards and the tombstone.
const (
	plausibleBehind = 365 * 24 * time.Hour
	plausibleAhead  = 3652 * 24 * time.Hour
)

// Reasons why a value is not a stamp. With each of them the lock counts as
// held, and the value is left to a human.
var (
	ErrUnreadable  = errors.New("not the dialect's text")
	ErrImplausible = errors.New("no plausible time")
	errNoStamp     = errors.New("the dialect writes no time")
)

// ValueError says why a value is not a stamp of a dialect. It unwraps to
// ErrUnreadable or ErrImplausible. If the dialect writes no time (see
// [Dialect.HasStamp]), it unwraps to neither.
type ValueError struct {
	Dialect string
	Value   string // value as found; Error quotes it and cuts it to a line
	Reason  error

	serverNow time.Time
}

// looks returns what the value may be instead, likeliest first, including other
// units. It computes that on demand: a poll that meets the same foreign value
// for hours should not pay for it.
func (e *ValueError) looks() []Match {
	return Identify(e.Value, e.serverNow, Hints{Prefer: e.Dialect})
}

// Error names the value, the dialect and what the value looks like.
func (e *ValueError) Error() string {
	text := fmt.Sprintf("value %s is no stamp of %s: %v", quoteShort(e.Value), e.Dialect, e.Reason)
	return text + "; it may be " + e.looks()[0].String()
}

// Unwrap returns the reason.
func (e *ValueError) Unwrap() error { return e.Reason }

// Stamp is a value that was read strictly: it has the dialect's text shape and
// lies between one year behind and ten years ahead of the server's clock. It
// says when it expires by its writer's clock, and not which client wrote it.
type Stamp struct {
	Text   string    // text of the value, decoded
	ID     string    // uuid of the writer, if the dialect has one
	Expiry time.Time // end of the lease in UTC, by the writer's clock, slack included, cut to the unit
}

// Decode reads bytes from the key strictly as a stamp of the dialect. serverNow
// is the server's clock, since plausibility is judged by the one clock that all
// clients share. With an error the Stamp is zero.
func (d Dialect) Decode(value string, serverNow time.Time) (Stamp, error) {
	text, err := d.DecodeValue(value)
	if err != nil {
		return Stamp{}, d.valueError(value, ErrUnreadable, serverNow)
	}
	if !d.HasStamp() {
		return Stamp{}, d.valueError(value, errNoStamp, serverNow)
	}
	s := Stamp{Text: text}
	number := text
	if d.Shape == ShapeUUIDNumber {
		var found bool
		s.ID, number, found = strings.Cut(text, ":")
		if !found || !isUUID(s.ID) {
			return Stamp{}, d.valueError(value, ErrUnreadable, serverNow)
		}
	}
	expiry, err := parseStrict(d.Unit, number)
	if err != nil {
		return Stamp{}, d.valueError(value, err, serverNow)
	}
	if !plausible(expiry, serverNow) || number == foreverPython {
		return Stamp{}, d.valueError(value, ErrImplausible, serverNow)
	}
	s.Expiry = expiry.Add(d.added())
	return s, nil
}

// PastBy reports whether a clock that is margin behind the server's, cut to the
// dialect's unit, is after the stamp. (To cut the server's clock alone would
// take up to a unit off a margin that is no whole number of units.) Equal is
// not past, even in dialects whose own clients take equal for expired:
// getsetlock is the stricter of the two.
func (d Dialect) PastBy(s Stamp, serverNow time.Time, margin time.Duration) bool {
	return d.cut(serverNow.Add(-margin)).After(s.Expiry)
}

// cut cuts an instant to the dialect's unit, towards the past. In dialects
// without time it changes nothing.
func (d Dialect) cut(t time.Time) time.Time {
	count, ok := unitCount(d.Unit, t)
	if !ok || d.Unit.Step() == 0 {
		return t
	}
	return unitTime(d.Unit, count)
}

// foreverPython is what redis-py's Lock without a timeout writes. From 2028 it
// would count as plausible, but it never means a time.
const foreverPython = "2147483649.0"

func plausible(expiry, serverNow time.Time) bool {
	return !expiry.Before(serverNow.Add(-plausibleBehind)) && !expiry.After(serverNow.Add(plausibleAhead))
}

// parseStrict reads a number in exactly the form that a formatter writes.
func parseStrict(u Unit, text string) (time.Time, error) {
	if u == UnitFloatSeconds {
		return parseFloatStrict(text)
	}
	if !isDecimal63(text) {
		return time.Time{}, ErrUnreadable
	}
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, ErrUnreadable
	}
	return unitTime(u, count), nil
}

// parseFloatStrict accepts digits, with or without a fraction, of up to 17
// significant digits. The shortest repr has no more, and Python 2.6 wrote all
// 17. Redis-py before 2.2.4 and TaskTiger's renewal write whole numbers. No
// client writes an exponent, a sign, inf or nan.
func parseFloatStrict(text string) (time.Time, error) {
	whole, fraction, found := strings.Cut(text, ".")
	significant := strings.TrimLeft(whole+fraction, "0")
	if !isDecimal63(whole) || len(significant) > 17 && !guardLike(text) {
		return time.Time{}, ErrUnreadable
	}
	if found && (fraction == "" || strings.Trim(fraction, "0123456789") != "") {
		return time.Time{}, ErrUnreadable
	}
	seconds, err1 := strconv.ParseInt(whole, 10, 64)
	nanos, err2 := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err1 != nil || err2 != nil {
		return time.Time{}, ErrUnreadable
	}
	return time.Unix(seconds, nanos).UTC(), nil
}

func (d Dialect) valueError(value string, reason error, serverNow time.Time) error {
	return &ValueError{Dialect: d.Name, Value: value, Reason: reason, serverNow: serverNow}
}

// quoteShort makes a value fit one line of a log, whatever its bytes are.
func quoteShort(value string) string {
	const limit = 80
	if len(value) <= limit {
		return strconv.QuoteToASCII(value)
	}
	cut := value[:limit]
	for i := 0; i < utf8.UTFMax && !utf8.ValidString(cut) && utf8.ValidString(value); i++ {
		cut = cut[:len(cut)-1]
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.QuoteToASCII(cut), len(value))
}
