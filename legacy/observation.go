// SPDX-License-Identifier: Apache-2.0

package legacy

import "github.com/getsetlock/getsetlock/internal/twokey"

// Observation is one look at a lock, read by the Backend's dialect.
type Observation = twokey.Observation

// Deleted says which keys CompareAndDelete deleted: Lock is L, the old clients'
// key, and Mark is M, the getsetlock clients' key.
type Deleted = twokey.Deleted

// LostError describes how a grant was lost. It unwraps to backend.ErrLost.
type LostError = twokey.LostError

// TypeError reports a key whose type no old client's lock can have. It unwraps
// to backend.ErrNoRetry: no release ever frees such a key.
type TypeError = twokey.TypeError

// MarkKey returns M, the getsetlock client's key alongside the legacy key L, in
// the same slot of a cluster. It is the same for every process, and the wire
// format pins it. A cluster hashes L, so M contains L as its hash tag, or keeps
// the tag that L has.
//
// HAZARD: if L contains a "}" but no hash tag, no second name falls into its
// slot. On a single server that does no harm. A cluster refuses the scripts,
// and the error says so.
func MarkKey(l string) string { return twokey.MarkKey(l) }
