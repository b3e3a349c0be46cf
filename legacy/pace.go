package legacy

import (
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// pace compares the server's clock with the elapsed time of this process. What
// TIME gains makes the fleet lie further behind it than the terms say, what it
// loses makes the fleet lie further ahead.
type pace struct {
	base dialect.Observation // the narrowest look before the two clocks parted
	fast atomic.Int64        // what TIME gained, in nanoseconds
	slow atomic.Int64        // what TIME lost, in nanoseconds
}

// note takes a look with the server's clock in.
func (p *pace) note(o dialect.Observation) {
	trip := func(o dialect.Observation) time.Duration { return o.Received - o.Sent }
	if p.base.ServerMicros == 0 || o.ServerStep(p.base) == 0 && trip(o) < trip(p.base) {
		p.base = o
	}
	gained, lost := p.against(o)
	p.fast.Store(int64(gained))
	p.slow.Store(int64(lost))
}

// against is the most that TIME can have gained, and lost, on this process since
// the first look. A part of both round trips is in either; where the clocks
// surely agree both are zero.
func (p *pace) against(o dialect.Observation) (gained, lost time.Duration) {
	if o.ServerStep(p.base) == 0 {
		return 0, 0
	}
	server := time.Duration(o.ServerMicros-p.base.ServerMicros) * time.Microsecond
	return max(0, server-(o.Sent-p.base.Received)), max(0, o.Received-p.base.Sent-server)
}

// lost is what the server's clock lost on this process, for the stamps to come.
// A stamp lies a day ahead, so whole minutes are fine enough.
func (w *watcher) lost() time.Duration {
	return roundUp(time.Duration(w.pace.slow.Load()), time.Minute)
}
