// SPDX-License-Identifier: Apache-2.0

// Package reading is the one place that says what a key and its value mean, for
// the census, the sources of an audit, probe, doctor and migrations: its role,
// its meaning in a dialect, its form, what getsetlock clients wrote, and what
// an old client does when it meets a value. It also knows the commands that
// change more than one key, and formats the events of gaps.
//
// It is pure: it reads the same bytes at the same instant the same way.
package reading

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Likeliest returns the presets that write stamps, the most common first, for
// values that several presets could have written. It lists each preset again
// for each serializer of Spring.
func Likeliest() []dialect.Dialect {
	first := []string{"Jedis", "JedisUUID", "Page", "RedisPy", "RedisObjects", "Machinery"}
	var out []dialect.Dialect
	for _, d := range dialect.Presets() {
		if d.HasStamp() {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b dialect.Dialect) int {
		return placeOf(first, a.Name) - placeOf(first, b.Name)
	})
	presets := len(out)
	for _, spelling := range []dialect.Encoding{dialect.JDK, dialect.JSON} {
		for _, d := range out[:presets] {
			d.ValueEncoding = spelling
			out = append(out, d)
		}
	}
	return out
}

func placeOf(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names)
}

// LongestStampText is the greatest length of a value that is tried as a stamp:
// a uuid, a colon, a number and some encoding.
const LongestStampText = 128

// Reading is what a value may be, in the dialects in question.
type Reading struct {
	Stamp    dialect.Stamp
	Dialects []*dialect.Dialect // dialects that read the value so, the likeliest first; empty: none
	Guard    bool
	Tomb     bool
}

// Known reports whether some client of a lock leaves such a value on its key.
func (r Reading) Known() bool { return len(r.Dialects) > 0 || r.Guard || r.Tomb }

// Legacy reports whether an old client wrote the value.
func (r Reading) Legacy() bool { return len(r.Dialects) > 0 && !r.Guard && !r.Tomb }

// digits reports whether the value has at least as many digits as the shortest
// stamp. That alone excludes most values on a server.
func digits(value string) bool {
	n := 0
	for i := range len(value) {
		if c := value[i]; c >= '0' && c <= '9' {
			n++
		}
	}
	return n >= 9
}

// Reader reads values in the dialects that a fleet may speak.
type Reader struct {
	dialects []*dialect.Dialect // the preferred ones first
	guessed  bool               // no dialect was named
	tokens   bool               // at least one of them writes no time
}

// NewReader returns a reader of the named dialects, or of all that write stamps
// if none was named.
func NewReader(named []dialect.Dialect) *Reader {
	r := &Reader{guessed: len(named) == 0}
	if r.guessed {
		named = Likeliest()
	}
	for _, d := range named {
		r.dialects = append(r.dialects, &d)
		r.tokens = r.tokens || !d.HasStamp()
	}
	return r
}

// Read tries the dialects. If two units are plausible, the first dialect's
// counts. set says that the value came by SET NX instead of SETNX, which
// excludes some dialects.
func (q *Reader) Read(value string, at time.Time, set bool) Reading {
	var r Reading
	if len(value) > LongestStampText || !q.tokens && !digits(value) {
		return r
	}
	spelling := Wrapping(value)
	for _, d := range q.dialects {
		if (d.Acquire != dialect.AcquireSetnx) != set || q.guessed && d.ValueEncoding != spelling {
			continue
		}
		stamp, what := Means(d, value, at)
		if !d.HasStamp() {
			what = Token // its clients may draw any text, that of a guard too
		}
		switch what {
		case Tombstone:
			return Reading{Tomb: true}
		case Guard:
			return Reading{Guard: true}
		case Token:
			if !q.guessed {
				r.Dialects = append(r.Dialects, d)
			}
		case Stamp:
			r.add(d, stamp)
		}
	}
	return r
}

// add adds a dialect that reads a stamp, unless an earlier dialect reads
// another instant from the same value.
func (r *Reading) add(d *dialect.Dialect, s dialect.Stamp) {
	if len(r.Dialects) > 0 && !s.Expiry.Equal(r.Stamp.Expiry) {
		return
	}
	if len(r.Dialects) == 0 {
		r.Stamp = s
	}
	r.Dialects = append(r.Dialects, d)
}

// Meaning is what a value on a lock's key L means in one dialect.
type Meaning int

// The meanings.
const (
	Foreign   Meaning = iota // no client of the dialect writes it
	Stamp                    // a time of an old client
	Token                    // the constant of an old client, in a dialect that writes no time
	Guard                    // of a getsetlock client that holds the lock
	Tombstone                // shuts old clients out
)

// Means reads a value in one dialect. The stamp is only that of a Stamp.
// Nothing shows who drew a random token: it is Foreign.
func Means(d *dialect.Dialect, value string, at time.Time) (dialect.Stamp, Meaning) {
	text, err := d.DecodeValue(value)
	if err != nil {
		text = value
	}
	switch {
	case text == d.Tombstone():
		return dialect.Stamp{}, Tombstone
	case isGuard(d, text):
		return dialect.Stamp{}, Guard
	case d.Shape == dialect.ShapeConstant && text == d.Constant:
		return dialect.Stamp{}, Token
	}
	s, err := d.Decode(value, at)
	if err != nil {
		return s, Foreign
	}
	return s, Stamp
}

// ReadAny is Read for a value whose command is unknown.
func (q *Reader) ReadAny(value string, at time.Time) Reading {
	r := q.Read(value, at, false)
	if !r.Known() {
		return q.Read(value, at, true)
	}
	return r
}

// isGuard reports whether the text is a number in the range of guards, after a
// uuid if the dialect has one.
func isGuard(d *dialect.Dialect, text string) bool {
	if d.Shape == dialect.ShapeUUIDNumber {
		_, text, _ = strings.Cut(text, ":")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	low, high := d.GuardRange()
	return err == nil && n >= low && n <= high
}

// Slacks returns the least and the greatest slack that a client may have added
// to its lease: those of d and of the dialects that write the same form.
func (r Reading) Slacks(d *dialect.Dialect) (low, high time.Duration) {
	low, high = d.Slack, d.Slack
	for _, other := range r.Dialects {
		if other.Unit == d.Unit && other.Shape == d.Shape {
			low, high = min(low, other.Slack), max(high, other.Slack)
		}
	}
	return low, high
}
