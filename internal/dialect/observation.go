// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Observation is what one look at a lock showed. A takeover policy may judge by
// nothing else. Instants on the local machine are elapsed times of one
// monotonic clock with an arbitrary zero.
type Observation struct {
	Key    string
	Exists bool
	Type   string        // Redis type, "string" for one; "" if it was not asked
	Value  string        // bytes of L; "" unless it is a string
	HasTTL bool          // L has a TTL
	PTTL   time.Duration // rest of that TTL by the server, if HasTTL

	MarkExists bool          // M, the getsetlock clients' key alongside L, exists
	MarkValue  string        // bytes of M
	MarkPTTL   time.Duration // rest of M's TTL; 0 without one

	// ServerMicros is the server's TIME at the look, in microseconds since
	// 1970; 0 if it was not asked.
	ServerMicros int64
	// Local is the local wall clock at the look. Only policies that reproduce
	// old clients use it.
	Local time.Time
	// Sent and Received are elapsed times just before the look was sent and
	// after its reply came.
	Sent, Received time.Duration
	// SameSince is Received of the first look in an unbroken run with the same
	// bytes; see Follow.
	SameSince time.Duration
}

// ServerNow returns the server's clock at the look, in UTC; zero if it was not
// asked.
func (o Observation) ServerNow() time.Time {
	if o.ServerMicros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(o.ServerMicros).UTC()
}

// Unchanged returns for how long the same bytes were certainly there: from the
// reply to the first look that saw them until the last look was sent. So
// neither round trip counts.
func (o Observation) Unchanged() time.Duration { return max(0, o.Sent-o.SameSince) }

// Follow adds a look to the one before it and returns it with SameSince set.
// The run starts anew when the bytes differ, when the key was or is missing,
// and when the look before is older than longestGap: Received less Received,
// since a look that was long under way may have read late. Between sparse looks
// a client can delete the value and write the same bytes again. The first look
// follows the zero Observation.
func (o Observation) Follow(before Observation, longestGap time.Duration) Observation {
	same := o.Exists && before.Exists && o.Key == before.Key && o.Type == before.Type &&
		o.Value == before.Value
	if same && o.Received-before.Received <= longestGap {
		o.SameSince = before.SameSince
	} else {
		o.SameSince = o.Received
	}
	return o
}

// ServerStep returns by how much the server's clock certainly moved against
// local elapsed time since an earlier look: positive for a step forwards. It is
// zero while the two round trips explain the difference, and when either look
// lacks the server's time.
func (o Observation) ServerStep(before Observation) time.Duration {
	if o.ServerMicros == 0 || before.ServerMicros == 0 {
		return 0
	}
	server := time.Duration(o.ServerMicros-before.ServerMicros) * time.Microsecond
	least, most := o.Sent-before.Received, o.Received-before.Sent
	switch {
	case server > most:
		return server - most
	case server < least:
		return server - least
	}
	return 0
}
