package legacy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Observation is one look at a lock, read by the Backend's dialect.
type Observation struct {
	dialect.Observation

	// Dialect is what the value was read by.
	Dialect dialect.Dialect

	// Stamp is the value as the dialect's stamp; zero where Err is not nil, or where there is none.
	Stamp dialect.Stamp

	// Err says why the value is no plausible stamp of the dialect: a [*dialect.ValueError] that
	// names what it may be instead, or a [*TypeError].
	Err error

	// Size is the value's length in bytes. Of more than a kilobyte only the beginning is in Value.
	Size int

	// Gained is what the server's clock gained on this process since its first look.
	Gained time.Duration

	// Looked is for how long the same bytes are known to have stood there, by a
	// look that is remembered on the server. Zero where no takeover needs it.
	Looked time.Duration

	// Unremembered says why the server could not be asked for that look.
	Unremembered error

	// Sparse is how long ago the look before this one was, when that is too long to have followed
	// the value from then on; zero when it is not.
	Sparse time.Duration
}

// left returns for how long M says that nobody holds the key, which a polite
// release left to old clients. It says false where M says nothing of the kind.
func (o Observation) left() (d time.Duration, ok bool) {
	_, ok = polite.Token(o.MarkValue)
	if !o.MarkExists || !ok {
		return 0, false
	}
	return o.MarkPTTL, true
}

// Token returns the token of ours on M, and the bytes its holder wrote on L last. It says false when
// M is missing or not ours, or when nobody holds the key, which was left to old clients. What stands behind the bytes names a member of package migrate's registry;
// a token alone is that of a holder who left nothing on L.
func (o Observation) Token() (token, bytes string, ok bool) {
	if _, left := o.left(); left || !o.MarkExists {
		return "", "", false
	}
	token, rest, ok := strings.Cut(o.MarkValue, " ")
	bytes, _, _ = strings.Cut(rest, " ")
	return token, bytes, ok
}

// Ours reports that a hardened holder of ours has the key: its token stands on M and its own bytes
// on L under a TTL.
func (o Observation) Ours() bool {
	_, bytes, ok := o.Token()
	return ok && o.Exists && o.HasTTL && o.Value == bytes
}

// OfOldClient reports that bytes stand on L which an old client wrote. A stamp
// with a PX is ours where the dialect sets none; what is no stamp of the dialect
// is another program's.
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

// now is the server's clock, or ours where it was not asked: good enough to name a value, and no
// Takeover judges such a look.
func (o Observation) now() time.Time {
	if o.ServerMicros == 0 {
		return o.Local
	}
	return o.ServerNow()
}

// read fills in what the dialect makes of the value.
func (s *server) read(name string, raw dialect.Observation, size int) Observation {
	o := Observation{Observation: raw, Dialect: s.dialect, Size: size}
	switch {
	case !raw.Exists:
	case raw.Type != "string":
		o.Err = &TypeError{Key: name, Type: raw.Type}
	default:
		o.Stamp, o.Err = s.dialect.Decode(raw.Value, o.now())
	}
	return o
}

// look reads the reply of the script's function of that name. The clock's fields are the caller's.
func (s *server) look(k keys, reply any, at roundTrip) (Observation, error) {
	f, ok := reply.([]any)
	if !ok || len(f) != 8 {
		return Observation{}, fmt.Errorf("legacy: key %q: the server sent a reply of another form: %T", k.name, reply)
	}
	raw := dialect.Observation{
		Key: k.l, Type: text(f[0]), Local: at.wall, Sent: at.sent, Received: at.received, SameSince: at.received,
	}
	raw.Exists = raw.Type != "none"
	raw.Value = text(f[1])
	if left := number(f[3]); left >= 0 && raw.Exists {
		raw.HasTTL, raw.PTTL = true, time.Duration(left)*time.Millisecond
	}
	raw.MarkExists = f[4] != nil
	raw.MarkValue = text(f[4])
	raw.MarkPTTL = time.Duration(max(number(f[5]), 0)) * time.Millisecond
	raw.ServerMicros = number(f[6])*1e6 + number(f[7])
	return s.read(k.name, raw, int(number(f[2]))), nil
}

// text is a bulk or status reply; nil is empty.
func text(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return ""
}

// number is an integer reply, or one that a script sent as text.
func number(v any) int64 {
	if n, ok := v.(int64); ok {
		return n
	}
	n, _ := strconv.ParseInt(text(v), 10, 64)
	return n
}
