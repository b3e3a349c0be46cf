package reading

import (
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// Wrapping is the only encoding that bytes can have, by how they begin: trying all of them is what a probe of
// many keys would do most of the time.
func Wrapping(s string) dialect.Encoding {
	switch {
	case strings.HasPrefix(s, "\xac\xed"):
		return dialect.JDK
	case strings.HasPrefix(s, `"`):
		return dialect.JSON
	}
	return dialect.Plain
}

// ShortQuote quotes the beginning of a value: it may be a kilobyte of anything.
func ShortQuote(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "…"
	}
	return strconv.Quote(s)
}

// IsLock says whether a value is one that a client of a lock leaves on its key.
func (q *Reader) IsLock(o offset.Observed) bool {
	if MarkOfOurs(o.Key, o.Value) {
		return false
	}
	return q.ReadAny(o.Value, o.At).Known()
}

// Bounded makes room for one more at the end of a list, forgetting the oldest.
func Bounded[T any](list []T, most int) []T {
	if len(list) < most {
		return list
	}
	return append(list[:0], list[len(list)-most+1:]...)
}

// KeySpellings are the spellings that clients of these dialects give their keys,
// each once. Where no dialect was named, each spelling is possible.
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
