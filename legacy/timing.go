package legacy

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// timing is what a TTL means on the wire, as arguments that are boxed once for
// all commands.
type timing struct {
	ttl  time.Duration
	m    any // PX of M, in ms
	l    any // PX of L, in ms
	sec  any // how far the stamp lies after the server's clock: whole seconds …
	usec any // … and the rest, in microseconds
	gap  any // end of L less end of M, in ms; empty where the script does not check it

	beyond int64         // end of L less end of M, in ms
	ahead  time.Duration // how far the stamp lies beyond the lease's end
}

// timing computes the arguments for a TTL, or refuses it.
func (h *hardened) timing(ttl time.Duration) (*timing, error) {
	// A clock that was seen further ahead than the claim still lies a day short
	// of the stamp.
	seen := dialect.Terms{Ahead: h.watch.contradictions().Ahead}
	ahead := max(h.cfg.Terms.StampAhead(), seen.StampAhead()) + h.watch.lost()
	if t := h.timed.Load(); t != nil && t.ttl == ttl && t.ahead == ahead {
		return t, nil
	}
	switch {
	case ttl < time.Millisecond:
		return nil,
			fmt.Errorf("legacy: TTL %v is less than a millisecond, the shortest that the server keeps", ttl)
	case ttl > dialect.LongestStamp:
		return nil,
			fmt.Errorf("legacy: TTL %v exceeds %v, the longest lease whose stamp still counts as plausible",
				ttl, dialect.LongestStamp)
	}
	if err := h.dialect.CheckLease(ttl, h.cfg.Terms); err != nil {
		return nil, fmt.Errorf("legacy: %w", err)
	}
	d := h.dialect
	t := &timing{ttl: ttl, ahead: ahead, m: ttl.Milliseconds(), l: ttl.Milliseconds(), sec: int64(0),
		usec: int64(0), gap: ""}
	if d.HasStamp() {
		// The stamp lies beyond every old client's clock. So it is L's PX that
		// frees the key after a crash.
		beyond := roundUp(roundUp(ttl+ahead, max(d.Unit.Step(), time.Microsecond))+d.Slack, time.Microsecond)
		t.sec, t.usec = int64(beyond/time.Second), int64(beyond%time.Second/time.Microsecond)
		if d.ServerExpires() {
			// An old client that writes the same bytes sets its own TTL on
			// them. That TTL must not end where this client's does, or a loss
			// would go unnoticed. (Package skew has the trace.)
			gap, _ := dialect.Claimed(h.cfg.Terms.Gap)
			t.beyond = roundUp(gap, time.Millisecond).Milliseconds() + 2*endsTogether
			t.gap = t.beyond
		}
		t.l = ttl.Milliseconds() + t.beyond
	}
	h.timed.Store(t)
	return t, nil
}

// endsTogether is how far L's end may be from where it belongs, in ms, for L to
// count as unchanged (shared.lua).
const endsTogether = 100

func roundUp(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// Positions of the server's clock among the scripts' arguments, counted from
// the first key.
const (
	acquireClock = 3 + 8
	renewClock   = 2 + 8
	finishClock  = 2 + 5
)

// stamping runs a script that needs the server's clock. The script itself calls
// TIME. Some servers allow no script to write after TIME; there TIME is a
// command of its own. That reading is old by one round trip: stamps end
// earlier, and trust counts from before TIME was sent, so both err to the safe
// side.
func (h *hardened) stamping(ctx context.Context, s *wire.Script, clockAt int, args ...any) (any, error) {
	if !h.oldServer.Load() {
		reply, err := h.mux.Eval(ctx, s, args...)
		if !wire.RefusesTime(err) {
			return reply, err
		}
		h.oldServer.Store(true)
	}
	sec, usec, err := h.time(ctx)
	if err != nil {
		return nil, err
	}
	args[clockAt], args[clockAt+1] = sec, usec
	return h.mux.Eval(ctx, s, args...)
}

// time asks the server for its clock. If the outcome of TIME is unknown, the
// attempt's outcome is still known: TIME takes nothing.
func (h *hardened) time(ctx context.Context) (sec, usec any, err error) {
	seconds, micros, err := wire.Clock(h.mux.Do(ctx, "TIME"))
	if unknown, ok := wire.MayBeSent(err); ok {
		err = unknown.Err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TIME: %w", err)
	}
	return seconds, micros, nil
}
