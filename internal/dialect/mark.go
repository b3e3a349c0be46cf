// SPDX-License-Identifier: Apache-2.0

package dialect

import "strconv"

// Tombstone63 is the tombstone's number in dialects of numbers other than .NET
// ticks. Getsetlock clients read it as free, and every old client reads it as
// held. Guards never use it.
const Tombstone63 = "9223372036854775807"

// tombstoneTicks is the last tick of .NET; one tick more makes DateTime throw.
const tombstoneTicks = "3155378975999999999"

// zeroUUID precedes the tombstone's number where clients read a uuid.
const zeroUUID = "00000000-0000-0000-0000-000000000000"

// Tombstone returns the dialect's tombstone text. Dialects that never read the
// value have the number too, so that getsetlock clients recognise it.
func (d Dialect) Tombstone() string {
	switch {
	case d.Unit == UnitTicks:
		return tombstoneTicks
	case d.Shape == ShapeUUIDNumber:
		return zeroUUID + ":" + Tombstone63
	}
	return Tombstone63
}

// GuardRange returns the least and the greatest number of a guard, both
// included. A guard is a random number that every old client reads as a time
// far ahead. The tombstone is not in the range.
func (d Dialect) GuardRange() (low, high int64) {
	if d.Unit == UnitTicks {
		return 2_000_000_000_000_000_000, 3_155_378_975_999_999_998
	}
	return 4_000_000_000_000_000_000, 9_223_372_036_854_775_806
}

// Guard returns the text of a guard. The caller draws the number from
// GuardRange, and the uuid where the dialect has one. The result is false for a
// number outside the range or a text that is not a uuid.
func (d Dialect) Guard(number int64, id string) (string, bool) {
	low, high := d.GuardRange()
	if number < low || number > high {
		return "", false
	}
	text := strconv.FormatInt(number, 10)
	if d.Shape != ShapeUUIDNumber {
		return text, true
	}
	return id + ":" + text, isUUID(id)
}

// guardLike reports whether a decimal has the form of a guard or a tombstone.
// It does not prove that getsetlock wrote it: other programs' 63-bit tokens
// look the same.
func guardLike(text string) bool {
	return len(text) == 19 && text[0] >= '4' && isDecimal63(text)
}
