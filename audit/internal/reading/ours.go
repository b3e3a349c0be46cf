package reading

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// What a getsetlock client leaves on a server is no evidence of an old client.
// Its stamp is told by the PX that frees the key: no old client of most dialects
// sets one. In dialects whose clients set TTLs, its stamp lies a day beyond the
// PX, and an old client's ends with it.

// MarkOfOurs reports that a getsetlock client left a token of its own on M, the
// key beside an old one, or that it left the old key to old clients. No old client writes there, and a dialect of bare
// tokens reads any text as one of its own.
func MarkOfOurs(key, value string) bool {
	if _, left := polite.Token(value); left {
		return strings.HasSuffix(key, ":gsl")
	}
	token, _, blank := strings.Cut(value, " ")
	return scope.IsToken(token) && (blank && strings.HasSuffix(key, ":gsl") || len(scope.OldKeys(key)) > 0)
}

// ourStampAhead is how far a getsetlock client's stamp lies beyond the end of its
// lease at least.
var ourStampAhead = dialect.Terms{}.StampAhead()

// OfOurs reports that a getsetlock client wrote the stamp. Where a dialect of
// the reading sets TTLs itself, only a stamp that lies far beyond its TTL counts
// as a getsetlock client's.
func (r Reading) OfOurs(now time.Time, hasTTL bool, ttl time.Duration) bool {
	return hasTTL && oursByTTL(r.Dialects, r.Stamp.Expiry.Sub(now)-ttl)
}

// oursByTTL decides by the dialects that fit, and by how far the stamp lies
// beyond the key's TTL.
func oursByTTL(fits []*dialect.Dialect, beyond time.Duration) bool {
	return len(fits) > 0 && !slices.ContainsFunc(fits, func(d *dialect.Dialect) bool {
		return !d.HasStamp() || d.ServerExpires() && beyond < ourStampAhead/2
	})
}

// StampOfOurs reports that a getsetlock client wrote the stamp in a value on a key
// with a TTL: what ends it is the TTL, and not the stamp. now is the server's
// clock; own are dialects to try beside the presets. It says false for a value
// that no dialect reads as a stamp.
func StampOfOurs(value string, now time.Time, ttl time.Duration, own []dialect.Dialect) bool {
	fits := Fitting(value, now, own)
	for _, d := range fits {
		if s, err := d.Decode(value, now); err != nil || !oursByTTL([]*dialect.Dialect{d}, s.Expiry.Sub(now)-ttl) {
			return false
		}
	}
	return len(fits) > 0
}

// PerhapsOurs reports that a stamp without a TTL lies where a getsetlock client's
// would: a day ahead, give or take a lease.
func PerhapsOurs(left, greatest, ahead time.Duration) bool {
	const guess = time.Hour // for the lease, where it is unknown
	about := cmp.Or(greatest, guess)
	return left >= ourStampAhead-about && left <= ourStampAhead+ahead+about
}

// What is said of a stamp that PerhapsOurs is true of, and what to do about it.
const (
	PerhapsOursIs     = "a stamp about a day ahead with no TTL: perhaps a getsetlock client's that lost its PX, or an old client's whose clock is a day ahead"
	PerhapsOursAdvice = "find out who took the TTL away (PERSIST, a restore); if no holder lives: getsetlock unlock KEY --value V"
)

// Fitting are all dialects that read a value as a stamp: the presets in the
// value's encoding, and own.
func Fitting(value string, now time.Time, own []dialect.Dialect) []*dialect.Dialect {
	var out []*dialect.Dialect
	encoding := Wrapping(value)
	for _, d := range dialect.Presets() {
		d.ValueEncoding = encoding
		if reads(d, value, now) {
			out = append(out, &d)
		}
	}
	for _, d := range own {
		d.ValueEncoding = encoding
		if reads(d, value, now) {
			out = append(out, &d)
		}
	}
	return out
}

func reads(d dialect.Dialect, value string, now time.Time) bool {
	if !d.HasStamp() {
		return false
	}
	_, err := d.Decode(value, now)
	return err == nil
}
