// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// write is a committed write of a session: sent is the instant before it was
// sent, done the elapsed time after its reply.
type write struct {
	sent backend.Instant
	done time.Duration
}

// trust says from when a session's lease may be counted.
//
// The leader ends a session by the touches that it knows. A follower learns of
// a touch when its client sends anything, and passes it on with its answer to
// the leader's next ping, half a tick later at most. A committed write proves
// that the leader got what the follower had sent before it. So a write counts
// when another one was committed that was sent more than half a tick after the
// first one's reply: the touch of the first stands in front of the second.
//
// A session lasts at least two ticks, so a quarter of it is at least half a
// tick. A server whose minSessionTimeout is lower than that breaks this rule.
type trust struct {
	mark backend.Instant // the session lives for its timeout after this at least
	last write
}

// begin counts from the request that created the session: the leader itself
// carried it out.
func begin(w write) trust { return trust{mark: w.sent, last: w} }

// gap is the least time between the reply of a write and the next one.
func gap(timeout time.Duration) time.Duration { return timeout * 3 / 10 }

// committed adds a write. A write that follows the last one too soon counts for
// nothing.
func (t trust) committed(w write, timeout time.Duration) trust {
	if w.sent.Elapsed-t.last.done < gap(timeout) {
		return t
	}
	return trust{mark: t.last.sent, last: w}
}

// due is when the next write is sent, in elapsed time.
func (t trust) due(timeout time.Duration) time.Duration {
	return max(t.last.sent.Elapsed+timeout/3, t.last.done+gap(timeout))
}

// stale reports whether a new lock would be trusted for too short. That happens
// where writes were not answered.
func (t trust) stale(now, timeout time.Duration) bool {
	return now-t.mark.Elapsed > timeout*3/4
}
