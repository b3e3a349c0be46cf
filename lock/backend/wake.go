// SPDX-License-Identifier: Apache-2.0

package backend

// Wake says whether a backend asks its server to report changes of keys, to
// waiters and to holders. It is a field of the backend's own Config, which
// documents the default.
type Wake int

// The values of Wake.
const (
	// WakeDefault is the backend's own choice.
	WakeDefault Wake = iota
	// WakeOn asks the server to report changes (CLIENT TRACKING: Redis 6 and
	// Valkey). If the server cannot, waiters poll.
	WakeOn
	// WakeOff makes waiters poll.
	WakeOff
)
