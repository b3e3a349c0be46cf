// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/twokey"
)

// Takeover decides whether the stamp that an old client left on a key has
// expired. It is asked only about values that the dialect reads as a plausible
// stamp ([Observation.Err] is nil). Everything else counts as held and is left
// to a human. A Takeover is pure: it gives the same answer for the same
// Observation.
type Takeover = twokey.Takeover

// ServerClock treats a stamp as expired when the server's TIME, cut to the
// dialect's unit, is more than margin after it. margin must be at least how far
// the slowest old client's clock is behind the server's. What the server's
// clock gained on this process is added to it. If this process sees a clock
// further behind ([Observation.Seen]), the margin is refuted, and no stamp
// counts as expired.
func ServerClock(margin time.Duration) Takeover { return twokey.ServerClock(margin) }

// LocalClock is ServerClock by this machine's wall clock, [Config.Clock], as
// old clients do it. It is wrong by as much as that clock is wrong: margin must
// cover that too.
func LocalClock(margin time.Duration) Takeover { return twokey.LocalClock(margin) }

// Unchanged treats a value as expired after looks have shown the same bytes for
// longer than lease plus the dialect's slack, in local elapsed time. lease must
// be the fleet's greatest. No clock's offset matters. Looks must follow each
// other within three retry periods (lock.Config.RetryEvery). Between sparser
// looks a client can delete the value and write the same bytes again, so
// counting starts anew. A caller that tries less often never takes over by this
// policy.
func Unchanged(lease time.Duration) Takeover { return twokey.Unchanged(lease) }

// All treats a value as expired when every one of the policies does. All of no
// policies never does.
func All(policies ...Takeover) Takeover { return twokey.All(policies...) }
