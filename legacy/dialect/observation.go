package dialect

import "time"

// Observation is what one look at a lock showed. It is all that a takeover policy may judge by.
// Instants on the local machine are elapsed times of one monotonic clock, whose zero means nothing.
type Observation struct {
	Key    string
	Exists bool
	Type   string        // Redis' own word, "string" where it is one; "" if it was not asked
	Value  string        // bytes of L; "" unless a string
	HasTTL bool          // L has a TTL
	PTTL   time.Duration // what is left of it by the server, if HasTTL

	MarkExists bool          // M, the key of ours beside L, exists
	MarkValue  string        // bytes of M
	MarkPTTL   time.Duration // what is left of it, 0 without TTL

	// ServerMicros is the server's TIME of the look, in microseconds since 1970; 0 if it was not
	// asked.
	ServerMicros int64
	// Local is the local wall clock at the look. Only policies that reproduce old clients use it.
	Local time.Time
	// Sent and Received are elapsed times just before the look was sent and after its reply came.
	Sent, Received time.Duration
	// SameSince is the Received of the first look of an unbroken run with the same bytes; see Follow.
	SameSince time.Duration
}

// ServerNow is the server's clock at the look, in UTC; zero if it was not asked.
func (o Observation) ServerNow() time.Time {
	if o.ServerMicros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(o.ServerMicros).UTC()
}

// Unchanged is how long the same bytes have surely stood there: from the reply to the first look that
// saw them until the last was sent, so that neither round trip counts.
func (o Observation) Unchanged() time.Duration { return max(0, o.Sent-o.SameSince) }

// Follow joins a look to the one before it and returns it with SameSince set. The run starts anew
// when the bytes differ, when the key was or is missing, and when the last look is older than
// longestGap: between sparse looks a value can be deleted and written again to the same bytes. The
// first look follows the zero Observation.
func (o Observation) Follow(before Observation, longestGap time.Duration) Observation {
	same := o.Exists && before.Exists && o.Key == before.Key && o.Type == before.Type && o.Value == before.Value
	if same && o.Sent-before.Received <= longestGap {
		o.SameSince = before.SameSince
	} else {
		o.SameSince = o.Received
	}
	return o
}

// ServerStep is by how much the server's clock surely moved against the local elapsed time since an
// earlier look: positive for a step forwards. It is zero while the difference is within what the two
// round trips explain, and when either look lacks the server's time.
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
