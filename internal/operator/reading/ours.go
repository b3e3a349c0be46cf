// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// What a getsetlock client leaves on a server is no evidence of an old client.
// The TTL (PX) on a key reveals a getsetlock client's stamp: old clients of
// most dialects set none. If a dialect's clients do set TTLs, the TTL of an old
// client ends with its stamp, while a getsetlock client's stamp expires a day
// after the TTL.

// Role is what a key is to locks.
type Role int

const (
	// Lock is the key L of a lock, if it is one of a lock at all: [Means] reads
	// its value.
	Lock Role = iota
	// Mark is the key M of a lock, with a getsetlock client's token.
	Mark
	// Left is the key M of a lock that a release left to old clients: no client
	// holds it.
	Left
	// Bookkeeping is what getsetlock stores for itself: records, queues,
	// counters, and looks at old clients' keys.
	Bookkeeping
)

// RoleOf returns the role of a key by its name and value. No old client writes
// an M, but a dialect of bare tokens would read any text as a token.
func RoleOf(name, value string) Role {
	switch {
	case IsMark(name, value):
		if _, left := polite.Token(value); left {
			return Left
		}
		return Mark
	case IsBookkeeping(name):
		return Bookkeeping
	}
	return Lock
}

// IsMark reports whether a getsetlock client wrote the key: its own token on M,
// or the note by which a release leaves L to old clients.
func IsMark(name, value string) bool {
	if _, left := polite.Token(value); left {
		return strings.HasSuffix(name, scope.MarkSuffix)
	}
	token, _, blank := strings.Cut(value, " ")
	return scope.IsToken(token) &&
		(blank && strings.HasSuffix(name, scope.MarkSuffix) || len(scope.OldKeys(name)) > 0)
}

// TrialKey is a part of the names of keys that doctor tries commands on. They
// never exist.
const TrialKey = "getsetlock:doctor:"

// IsBookkeeping reports whether getsetlock stores something for itself under
// that name.
func IsBookkeeping(name string) bool {
	return strings.HasPrefix(name, names.Prefix) || scope.IsLook(name)
}

// ourStampAhead is the least time from the end of a getsetlock client's lease
// to the expiry in its stamp.
var ourStampAhead = dialect.Terms{}.StampAhead()

// OfOurs reports whether a getsetlock client wrote the stamp. If a dialect of
// the reading sets TTLs itself, only a stamp far beyond its TTL counts as a
// getsetlock client's.
func (r Reading) OfOurs(now time.Time, hasTTL bool, ttl time.Duration) bool {
	return hasTTL && oursByTTL(r.Dialects, r.Stamp.Expiry.Sub(now)-ttl)
}

// oursByTTL decides by the dialects that read the stamp, and by how far the
// stamp is beyond the key's TTL.
func oursByTTL(fits []*dialect.Dialect, beyond time.Duration) bool {
	return len(fits) > 0 && !slices.ContainsFunc(fits, func(d *dialect.Dialect) bool {
		return !d.HasStamp() || d.ServerExpires() && beyond < ourStampAhead/2
	})
}

// StampOfOurs reports whether a getsetlock client wrote the stamp in the value
// of a key with a TTL. If so, the lock ends with the TTL and not with the
// stamp. now is the server's clock; own are dialects to try in addition to the
// presets. It returns false for a value that no dialect reads as a stamp.
func StampOfOurs(value string, now time.Time, ttl time.Duration, own []dialect.Dialect) bool {
	fits := Fitting(value, now, own)
	for _, d := range fits {
		if s, err := d.Decode(value, now); err != nil ||
			!oursByTTL([]*dialect.Dialect{d}, s.Expiry.Sub(now)-ttl) {
			return false
		}
	}
	return len(fits) > 0
}

// PerhapsOurs reports whether a stamp without a TTL is where a getsetlock
// client's would be: a day ahead, give or take a lease.
func PerhapsOurs(left, greatest, ahead time.Duration) bool {
	const guess = time.Hour // used if the lease is unknown
	about := cmp.Or(greatest, guess)
	return left >= ourStampAhead-about && left <= ourStampAhead+ahead+about
}

// What a finding says about a stamp for which PerhapsOurs is true, and its
// advice.
const (
	PerhapsOursIs     = "a stamp about a day ahead with no TTL: perhaps of a getsetlock client whose key lost its PX, or of an old client whose clock is a day ahead"
	PerhapsOursAdvice = "find out what removed the TTL (PERSIST, a restore); if no holder lives: getsetlock unlock KEY --value V"
)

// Fitting returns all dialects that read a value as a stamp: the presets, in
// the value's encoding, and own.
func Fitting(value string, now time.Time, own []dialect.Dialect) []*dialect.Dialect {
	var out []*dialect.Dialect
	encoding := Wrapping(value)
	for _, d := range append(dialect.Presets(), own...) {
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
