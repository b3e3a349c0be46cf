package audit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// likeliest are the presets that stamp, those first that are met most where
// values alone leave several. Each may hand its values to a serializer of
// Spring's.
func likeliest() []dialect.Dialect {
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

// longestStampText bounds what is tried as a stamp: a uuid, a colon, a number and some encoding.
const longestStampText = 128

// reading is what a value may be, in the dialects that are asked about.
type reading struct {
	stamp    dialect.Stamp
	dialects []*dialect.Dialect // that read it so, the likeliest first; empty: none
	guard    bool
	tomb     bool
}

func (r reading) legacy() bool { return len(r.dialects) > 0 && !r.guard && !r.tomb }

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

// read tries the dialects. Where two units are plausible the first dialect's counts. set says that the value came by SET
// NX instead of SETNX, which leaves dialects out.
func (c *Census) read(value string, at time.Time, set bool) reading {
	var r reading
	if len(value) > longestStampText || !c.tokens && !digits(value) {
		return r
	}
	spelling, guessed := wrapping(value), len(c.cfg.Dialects) == 0
	for _, d := range c.dialects {
		if (d.Acquire != dialect.AcquireSetnx) != set || guessed && d.ValueEncoding != spelling {
			continue
		}
		text, err := d.DecodeValue(value)
		if err != nil {
			text = value
		}
		if text == d.Tombstone() && d.HasTakeover() {
			return reading{tomb: true}
		}
		if !d.HasStamp() {
			if len(c.cfg.Dialects) > 0 {
				r.dialects = append(r.dialects, d)
			}
			continue
		}
		if isGuard(d, text) {
			return reading{guard: true}
		}
		s, err := d.Decode(value, at)
		if err != nil || len(r.dialects) > 0 && !s.Expiry.Equal(r.stamp.Expiry) {
			continue
		}
		if len(r.dialects) == 0 {
			r.stamp = s
		}
		r.dialects = append(r.dialects, d)
	}
	return r
}

// readAny is read for values whose command is not known.
func (c *Census) readAny(value string, at time.Time) reading {
	r := c.read(value, at, false)
	if len(r.dialects) == 0 && !r.guard && !r.tomb {
		return c.read(value, at, true)
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

func names(ds []*dialect.Dialect) []string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		out = append(out, d.Name)
	}
	return out
}
