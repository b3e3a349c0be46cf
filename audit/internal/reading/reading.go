// Package reading is what the census and the sources of an audit share: what a
// value on a key is, by the dialects in question; what a getsetlock client wrote;
// which commands change more than one key; the words in an event of a gap.
//
// It is pure: the same bytes at the same instant are read the same.
package reading

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Likeliest are the presets that stamp, those first that are met most where
// values alone leave several. Each may hand its values to a serializer of
// Spring's.
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

// LongestStampText bounds what is tried as a stamp: a uuid, a colon, a number and some encoding.
const LongestStampText = 128

// Reading is what a value may be, in the dialects that are asked about.
type Reading struct {
	Stamp    dialect.Stamp
	Dialects []*dialect.Dialect // that read it so, the likeliest first; empty: none
	Guard    bool
	Tomb     bool
}

// Known reports that a client of a lock leaves such a value on its key.
func (r Reading) Known() bool { return len(r.Dialects) > 0 || r.Guard || r.Tomb }

// Legacy reports that an old client wrote the value.
func (r Reading) Legacy() bool { return len(r.Dialects) > 0 && !r.Guard && !r.Tomb }

// digits reports as many digits as the shortest stamp has. Most values on a server are out by that alone.
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
	dialects []*dialect.Dialect // in the order of preference
	guessed  bool               // nobody named them
	tokens   bool               // one of them writes no time
}

// NewReader reads in the dialects that were named, in all that stamp where none
// was.
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

// Read tries the dialects. Where two units are plausible the first dialect's counts. set says that the value came by SET
// NX instead of SETNX, which leaves dialects out.
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
		stamp, what := readBy(d, value, at)
		switch what {
		case meansTomb:
			return Reading{Tomb: true}
		case meansGuard:
			return Reading{Guard: true}
		case meansToken:
			if !q.guessed {
				r.Dialects = append(r.Dialects, d)
			}
		case meansStamp:
			r.add(d, stamp)
		}
	}
	return r
}

// add takes a stamp by one more dialect, unless an earlier one reads another
// instant.
func (r *Reading) add(d *dialect.Dialect, s dialect.Stamp) {
	if len(r.Dialects) > 0 && !s.Expiry.Equal(r.Stamp.Expiry) {
		return
	}
	if len(r.Dialects) == 0 {
		r.Stamp = s
	}
	r.Dialects = append(r.Dialects, d)
}

// meaning is what a value is in one dialect.
type meaning int

const (
	meansNothing meaning = iota
	meansTomb
	meansGuard
	meansToken // of a dialect that writes no time
	meansStamp
)

// readBy reads a value in one dialect.
func readBy(d *dialect.Dialect, value string, at time.Time) (dialect.Stamp, meaning) {
	text, err := d.DecodeValue(value)
	if err != nil {
		text = value
	}
	switch {
	case text == d.Tombstone() && d.HasTakeover():
		return dialect.Stamp{}, meansTomb
	case !d.HasStamp():
		return dialect.Stamp{}, meansToken
	case isGuard(d, text):
		return dialect.Stamp{}, meansGuard
	}
	s, err := d.Decode(value, at)
	if err != nil {
		return s, meansNothing
	}
	return s, meansStamp
}

// ReadAny is read for values whose command is not known.
func (q *Reader) ReadAny(value string, at time.Time) Reading {
	r := q.Read(value, at, false)
	if !r.Known() {
		return q.Read(value, at, true)
	}
	return r
}

// isGuard reports a number in the range of guards, with a uuid where the dialect has one.
func isGuard(d *dialect.Dialect, value string) bool {
	if !d.HasTakeover() {
		return false
	}
	if d.Shape == dialect.ShapeUUIDNumber {
		_, value, _ = strings.Cut(value, ":")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	low, high := d.GuardRange()
	return err == nil && n >= low && n <= high
}

// Slacks are the least and the greatest that a client may have added to its
// lease: those of d, and of the dialects that write the same form.
func (r Reading) Slacks(d *dialect.Dialect) (low, high time.Duration) {
	low, high = d.Slack, d.Slack
	for _, other := range r.Dialects {
		if other.Unit == d.Unit && other.Shape == d.Shape {
			low, high = min(low, other.Slack), max(high, other.Slack)
		}
	}
	return low, high
}
