// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// Wrapping returns the only encoding that the bytes can have, judged by their
// first ones. A probe of many keys would spend most of its time on trying all
// encodings.
func Wrapping(s string) dialect.Encoding {
	switch {
	case strings.HasPrefix(s, "\xac\xed"):
		return dialect.JDK
	case strings.HasPrefix(s, `"`):
		return dialect.JSON
	}
	return dialect.Plain
}

// ShortQuote quotes the beginning of a value, which may be a kilobyte of
// anything.
func ShortQuote(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "…"
	}
	return strconv.Quote(s)
}

// IsLock reports whether the value is one that a client of a lock leaves on its
// key.
func (q *Reader) IsLock(o offset.Observed) bool {
	if IsMark(o.Key, o.Value) {
		return false
	}
	return q.ReadAny(o.Value, o.At).Known()
}

// Bounded makes room for one more element at the end of a list by dropping the
// oldest.
func Bounded[T any](list []T, most int) []T {
	if len(list) < most {
		return list
	}
	return append(list[:0], list[len(list)-most+1:]...)
}

// KeySpellings returns the encodings that clients of these dialects use for
// keys, each once. If no dialect is named, every encoding is possible.
func KeySpellings(named []dialect.Dialect) []dialect.Encoding {
	if len(named) == 0 {
		return []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}
	}
	var out []dialect.Encoding
	for _, d := range named {
		e := d.KeyEncoding
		if e != dialect.JDK && e != dialect.JSON {
			e = dialect.Plain
		}
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}
