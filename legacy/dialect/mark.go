package dialect

import "strconv"

// Tombstone63 is the number that says "free" to ours and "held" to every legacy reader, in dialects
// of numbers but .NET ticks. Guards never draw it.
const Tombstone63 = "9223372036854775807"

// tombstoneTicks is the last tick of .NET: one more and DateTime throws.
const tombstoneTicks = "3155378975999999999"

// zeroUUID stands before the tombstone's number where a uuid is read.
const zeroUUID = "00000000-0000-0000-0000-000000000000"

// Tombstone returns the dialect's tombstone text. Dialects that never read the value have the number
// too, so that ours recognise it.
func (d Dialect) Tombstone() string {
	switch {
	case d.Unit == UnitTicks:
		return tombstoneTicks
	case d.Shape == ShapeUUIDNumber:
		return zeroUUID + ":" + Tombstone63
	}
	return Tombstone63
}

// GuardRange returns the least and the greatest number of a guard, a random number that every legacy
// reader takes for a time far ahead. Both ends belong to it, the tombstone does not.
func (d Dialect) GuardRange() (low, high int64) {
	if d.Unit == UnitTicks {
		return 2_000_000_000_000_000_000, 3_155_378_975_999_999_998
	}
	return 4_000_000_000_000_000_000, 9_223_372_036_854_775_806
}

// Guard writes the guard of a number the caller drew from GuardRange, with the uuid it drew where the
// dialect has one. It says false for a number outside the range or a text that is no uuid.
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

// guardLike reports that a decimal has a guard's or a tombstone's form. It never means that it is
// ours: other people's 63-bit tokens look the same.
func guardLike(text string) bool {
	return len(text) == 19 && text[0] >= '4' && isDecimal63(text)
}
