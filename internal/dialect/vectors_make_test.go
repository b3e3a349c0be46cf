// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// makeVectors writes down what this package says. That pins it. The recorded
// files and the tests of the table check that it is true.
func makeVectors(t *testing.T, d Dialect) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(vectorHeader + "\ndialect " + d.Name + "\n")
	id := d.NewID([16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	now := time.Unix(1_400_000_000, 123_456_789)
	own := makeStamps(t, &b, d, id)
	values := vectorValues(t, d, id, now)
	for _, v := range values {
		if !v.Nil {
			fmt.Fprintf(&b, "decode %d %s %s\n", now.UnixNano(), replyWord(v),
				decodeWord(d.Decode(v.Value, now)))
		}
	}
	for _, v := range values {
		fmt.Fprintf(&b, "next %d %s %s %s\n", now.UnixNano(), idWord(id), replyWord(v),
			d.LegacyNext(v, id, now))
	}
	for _, seen := range append(values[:2:2], Nil()) {
		for _, old := range values {
			fmt.Fprintf(&b, "wins %d %s %s %s\n", now.UnixNano(), replyWord(seen), replyWord(old),
				d.LegacyWins(old, seen, now))
		}
	}
	for _, later := range []time.Duration{0, 29 * time.Second, 32 * time.Second} {
		for _, seen := range append(values[:4:4], Text(own), Nil(), Text("abc")) {
			at := now.Add(later)
			fmt.Fprintf(&b, "release %d %s %s %s\n", at.UnixNano(), wordOf(own), replyWord(seen),
				d.LegacyReleases(own, seen, at))
		}
	}
	return b.String()
}

// makeStamps returns the value of 30 seconds from the vectors' usual clock on.
func makeStamps(t *testing.T, b *strings.Builder, d Dialect, id string) (own string) {
	t.Helper()
	for _, nanos := range []int64{1_400_000_000_123_456_789, 0, 1_599_999_999_999_999_999,
		4_102_444_800_000_000_000} {
		for _, lease := range []time.Duration{30 * time.Second, time.Hour, time.Second} {
			text, err := d.Stamp(time.Unix(0, nanos), lease, id)
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			raw, err := d.EncodeValue(text)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(b, "stamp %d %d %s %s\n", nanos, lease.Milliseconds(), idWord(id), wordOf(raw))
			if own == "" {
				own = raw
			}
		}
	}
	return own
}

func idWord(id string) string {
	if id == "" {
		return "-"
	}
	return id
}

// vectorValues are the dialect's own stamps around now, expired ones first,
// then what other programs write.
func vectorValues(t *testing.T, d Dialect, id string, now time.Time) []Reply {
	t.Helper()
	var values []Reply
	add := func(text string) {
		raw, err := d.EncodeValue(text)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, Text(raw))
	}
	unit := d.Unit
	if !d.HasStamp() {
		unit = UnitMillis
	}
	count, _ := unitCount(unit, now)
	for _, away := range []int64{-60_000, -1, 0, 1, 60_000} {
		number := strconv.FormatInt(count+away, 10)
		if unit == UnitFloatSeconds {
			number = pythonFloat(floatSeconds(now) + float64(away)/1000)
		}
		if d.Shape == ShapeUUIDNumber {
			add("0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a:" + number)
			number = id + ":" + number
		}
		add(number)
	}
	for _, text := range []string{
		"", "0", "1", "-5", "+5", " 5", "5 ", "007", "5x", "1.4e9", "nan", "abc", "true", "1400000060124",
		"1400000060",
		"1400000060.5", "1400000060123456789", "636623568000000000", "4611686018427387904", Tombstone63,
		"9223372036854775808", d.Tombstone(), foreverPython, "0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a",
		"0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a:1400000060124", "\xff\xfe",
		"\xac\xed\x00\x05t\x00\r1400000060124",
		`"1400000060124"`,
	} {
		values = append(values, Text(text))
	}
	return append(values, Nil())
}
