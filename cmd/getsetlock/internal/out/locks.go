package out

import (
	"strings"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy"
)

// What the protocol of a lock is called, on command lines and in answers.
const (
	ProtocolLegacy    = "legacy"
	ProtocolModern    = "modern"
	ProtocolDual      = "dual"
	ProtocolTombstone = "tombstone"
)

// ReservedNote stands behind a token on a key that nobody holds: a release keeps it for
// the waiter with that token, see modern.Info.Reserved.
const ReservedNote = "reserved"

// TokenLock takes the value of a token lock of ours apart; ok is false where there is none, or where a
// token stands beside the key, whose rules are the old clients' then.
func TokenLock(o legacy.Observation) (token, note string, ok bool) {
	token, note, _ = strings.Cut(o.Value, " ")
	_, _, beside := o.Token()
	return token, note, o.Exists && o.Type == "string" && o.HasTTL && o.Size == len(o.Value) && !beside && scope.IsToken(token)
}
