// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// Observation is one look at a lock, read by the Backend's dialect.
type Observation struct {
	dialect.Observation

	// Dialect is the dialect that read the value.
	Dialect dialect.Dialect

	// Stamp is the value as a stamp of the dialect; zero if Err is not nil or
	// the dialect has no stamp.
	Stamp dialect.Stamp

	// Err is why the value is not a plausible stamp of the dialect: a
	// [*dialect.ValueError] that names what it may be instead, or a
	// [*TypeError].
	Err error

	// Size is the value's length in bytes. If that is more than a kilobyte,
	// Value has only the first kilobyte.
	Size int

	// Gained is how much the server's clock gained on this process since its
	// first look.
	Gained time.Duration

	// Seen is what this process saw old clients write that contradicts the
	// terms, on any key of this server.
	Seen dialect.Seen

	// Looked is for how long L is known to have had the same bytes, by a look
	// that the server remembers. Zero where no takeover needs it.
	Looked time.Duration

	// Unremembered is why the server could not be asked for that look.
	Unremembered error

	// Sparse is the time since the look before this one, if that is too long
	// for both to belong together; otherwise zero.
	Sparse time.Duration
}

// left returns the rest of the time for which a polite release leaves the key
// to old clients. ok is false where M does not say that.
func (o Observation) left() (d time.Duration, ok bool) {
	_, ok = polite.Token(o.MarkValue)
	if !o.MarkExists || !ok {
		return 0, false
	}
	return o.MarkPTTL, true
}

// Token returns the token on M, and the bytes that its holder last wrote on L.
// ok is false when M is missing or has another form, and when no client holds
// the key because it was left to old clients. What follows the bytes names a
// member of package migrate's registry. A token alone is that of a holder who
// left nothing on L.
func (o Observation) Token() (token, bytes string, ok bool) {
	if _, left := o.left(); left || !o.MarkExists {
		return "", "", false
	}
	token, rest, ok := strings.Cut(o.MarkValue, " ")
	bytes, _, _ = strings.Cut(rest, " ")
	return token, bytes, ok
}

// Ours reports whether a hardened getsetlock client holds the key: its token is
// on M, and its own bytes are on L with a TTL.
func (o Observation) Ours() bool {
	_, bytes, ok := o.Token()
	return ok && o.Exists && o.HasTTL && o.Value == bytes
}

// OfOldClient reports whether an old client wrote the bytes on L. In a dialect
// whose clients set no PX, a stamp with a PX comes from a getsetlock client. A
// value that is not a stamp of the dialect comes from another program.
func (o Observation) OfOldClient() bool {
	if !o.Exists || o.Err != nil {
		return false
	}
	if _, bytes, ok := o.Token(); ok && bytes == o.Value {
		return false
	}
	if o.Dialect.HasStamp() {
		return !o.HasTTL || o.Dialect.ServerExpires()
	}
	return !scope.IsToken(o.Value)
}

// Doubt returns why the terms do not let the default [Takeover] take the stamp
// over by the server's clock alone, or by its age: what was seen contradicts
// them, or nobody stated the lease. It names the fields of [dialect.Terms] that
// end the doubt. It is empty if there is none. terms are those of the Backend.
func (o Observation) Doubt(terms dialect.Terms) string {
	var why []string
	left := terms.Against(o.Seen)
	claim, claimed := dialect.Claimed(terms.Behind)
	_, known := dialect.Claimed(left.Behind)
	if claimed && !known {
		why = append(why, fmt.Sprintf("Behind %v does not count: the clock of some old client was seen at least %v behind the server's, or Lease %v is too long, or such values are no ends of leases",
			claim, o.Seen.Behind.Round(time.Millisecond), terms.Lease))
	}
	if left.Greatest > terms.Greatest {
		why = append(why, fmt.Sprintf("a lease of %v was seen, so Greatest %v does not count and the longer one is waited for",
			left.Greatest.Round(time.Millisecond), terms.Greatest))
	}
	if _, aged := left.LookAge(o.Dialect); !aged && !known && o.ServerMicros != 0 &&
		o.Dialect.PastBy(o.Stamp, o.ServerNow(), left.TakeoverMargin()) {
		why = append(why, "nobody stated the lease of the old clients, so no wait proves that the holder has ended: set Lease or Greatest to what the old clients use, or Behind to how far their clocks are at most behind the server's")
	}
	return strings.Join(why, "; ")
}

// now returns the server's clock, or this machine's where the server's was not
// read. That is good enough to name a value; no Takeover judges such a look.
func (o Observation) now() time.Time {
	if o.ServerMicros == 0 {
		return o.Local
	}
	return o.ServerNow()
}

// read fills in what the dialect reads from the value.
func (s *Server) read(name string, raw dialect.Observation, size int) Observation {
	o := Observation{Observation: raw, Dialect: s.Settings.Dialect, Size: size}
	switch {
	case !raw.Exists:
	case raw.Type != "string":
		o.Err = &TypeError{Key: name, Type: raw.Type}
	default:
		o.Stamp, o.Err = s.Settings.Dialect.Decode(raw.Value, o.now())
	}
	return o
}

// look reads the reply of the scripts' function look. The caller supplies the
// clock readings.
func (s *Server) look(k Keys, reply any, at roundTrip) (Observation, error) {
	f, ok := reply.([]any)
	if !ok || len(f) != 8 {
		return Observation{}, fmt.Errorf("%s: key %q: the server sent an unexpected reply: %T",
			s.Settings.Package, k.Name, reply)
	}
	raw := dialect.Observation{
		Key: k.L, Type: Text(f[0]), Local: at.wall, Sent: at.sent, Received: at.received,
		SameSince: at.received,
	}
	raw.Exists = raw.Type != "none"
	raw.Value = Text(f[1])
	if left := Number(f[3]); left >= 0 && raw.Exists {
		raw.HasTTL, raw.PTTL = true, time.Duration(left)*time.Millisecond
	}
	raw.MarkExists = f[4] != nil
	raw.MarkValue = Text(f[4])
	raw.MarkPTTL = time.Duration(max(Number(f[5]), 0)) * time.Millisecond
	raw.ServerMicros = Number(f[6])*1e6 + Number(f[7])
	return s.read(k.Name, raw, int(Number(f[2]))), nil
}

// Text returns a bulk or status reply as a string; nil is empty.
func Text(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return ""
}

// Number returns an integer reply, or a number that a script sent as text.
func Number(v any) int64 {
	if n, ok := v.(int64); ok {
		return n
	}
	n, _ := strconv.ParseInt(Text(v), 10, 64)
	return n
}
