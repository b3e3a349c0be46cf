// SPDX-License-Identifier: Apache-2.0

package out

import (
	"strings"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy"
)

// Names of the protocols of a lock, on command lines and in answers.
const (
	ProtocolLegacy    = "legacy"
	ProtocolModern    = "modern"
	ProtocolDual      = "dual"
	ProtocolTombstone = "tombstone"
)

// TokenLock splits the value of a token lock that a getsetlock client wrote. ok
// is false where there is no such lock, and where a token lies on key M: then
// key L follows the old clients' rules.
func TokenLock(o legacy.Observation) (token, note string, ok bool) {
	token, note, _ = strings.Cut(o.Value, " ")
	_, _, beside := o.Token()
	return token, note, o.Exists && o.Type == "string" && o.HasTTL && o.Size == len(o.Value) && !beside &&
		scope.IsToken(token)
}
