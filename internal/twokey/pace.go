// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// pace compares the server's clock with the elapsed time of this process. What
// TIME gains puts the fleet further behind it than the terms say. What TIME
// loses puts the fleet further ahead.
type pace struct {
	base dialect.Observation // the look with the shortest round trip, before the two clocks parted
	fast atomic.Int64        // what TIME gained, in nanoseconds
	slow atomic.Int64        // what TIME lost, in nanoseconds
}

// note adds a look that has a reading of the server's clock.
func (p *pace) note(o dialect.Observation) {
	trip := func(o dialect.Observation) time.Duration { return o.Received - o.Sent }
	if p.base.ServerMicros == 0 || o.ServerStep(p.base) == 0 && trip(o) < trip(p.base) {
		p.base = o
	}
	gained, lost := p.against(o)
	p.fast.Store(int64(gained))
	p.slow.Store(int64(lost))
}

// against returns the most that TIME can have gained, and lost, on this process
// since the first look. Both include a part of both round trips. Both are zero
// while no step is certain.
func (p *pace) against(o dialect.Observation) (gained, lost time.Duration) {
	if o.ServerStep(p.base) == 0 {
		return 0, 0
	}
	server := time.Duration(o.ServerMicros-p.base.ServerMicros) * time.Microsecond
	return max(0, server-(o.Sent-p.base.Received)), max(0, o.Received-p.base.Sent-server)
}

// lost returns what the server's clock lost on this process, for later stamps,
// rounded up to whole minutes. A stamp lies a day ahead, so minutes are fine
// enough.
func (w *watcher) lost() time.Duration {
	return roundUp(time.Duration(w.pace.slow.Load()), time.Minute)
}
