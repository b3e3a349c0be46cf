// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// losing is a step that a lease of another phase forbids, whose member goes
// silent and is then lost.
type losing struct {
	from, lease migrate.Phase
	run         func(context.Context, *redis.Pool, Options) (*Report, error)
}

var losings = map[string]losing{
	"advance to sealed": {migrate.Dual, migrate.Observe, Advance},
	"advance to modern": {migrate.Sealed, migrate.Dual, Advance},
	"back to dual":      {migrate.Sealed, migrate.Modern, Back},
	"back to observe":   {migrate.Dual, migrate.Sealed, Back},
	"clean":             {migrate.Modern, migrate.Sealed, CleanUp},
	"init after clean":  {migrate.Clean, migrate.Modern, Init},
}

// TestNoGateOpensBesideALeaseWhenMembersAreLost at any message of any verb: all
// of the roster, or the half that the promoted server had not. Every gate opens
// in the end.
func TestNoGateOpensBesideALeaseWhenMembersAreLost(t *testing.T) {
	for name, l := range losings {
		for what, lose := range map[string]func(*fleet){
			"all":  func(f *fleet) { f.w.Mini.Del(record.RosterKey("")) },
			"half": func(f *fleet) { f.w.Mini.HDel(record.RosterKey(""), "away") },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				for nth, last := 1, 1; nth <= last && !t.Failed(); nth += raced.Every(8) {
					for _, cut := range []bool{false, true} {
						// connections may end unnoticed between two messages
						inBubble(t, func(f *fleet) { last = max(last, l.suffers(f, nth, lose, cut)) })
					}
				}
			})
		}
	}
}

// suffers lets the loss happen at the nth message of the verb, and runs it
// again until it moves. It returns how many messages there were.
func (l losing) suffers(f *fleet, nth int, lose func(*fleet), cut bool) int {
	t := f.t
	f.recorded(migrate.Record{Epoch: 5, Phase: l.from, Since: f.w.ServerNow(), Dialect: "Jedis", Run: "first",
		TTL: 20 * time.Second, Every: beatEvery})
	f.join(migrate.MemberConfig{})
	f.w.Run("first")
	f.beats()
	f.w.Mini.HSet(record.RosterKey(""), "away", migrate.MemberState{
		ID: "away", Dialect: "Jedis", Epoch: 5, Phase: l.from, Seen: f.w.ServerNow(), Every: beatEvery,
		Renews: record.LeastRenewals,
		TTL:    20 * time.Second, Leases: map[migrate.Phase]int{l.lease: 1}, Probe: record.ProbeOK,
	}.String())
	over := f.w.ServerNow().Add(record.LeastRenewals + 20*time.Second) // a renewal at the last moment
	gate, wire := redistest.NewGate(), f.w.Wire()
	sent := 0
	wire.Fault(redistest.Rule{Nth: nth, When: func(redistest.Command) bool {
		sent++
		return true
	}, Do: redistest.HoldRequest(gate)})
	ended, happened := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(happened)
		select {
		case <-gate.Reached():
		case <-ended:
		}
		lose(f)
		f.w.Run("second")
		if cut {
			wire.Cut()
		}
		gate.Open()
	}()
	r, _ := l.run(bg, wire.Pool(), f.options(Options{Go: true}))
	close(ended)
	<-happened
	messages := sent
	for tries := 0; ; tries++ {
		done := r != nil && r.Moved
		if l.from == migrate.Clean {
			// a new beginning is a step at once, and old clients may start when
			// it is over
			done = r != nil && r.Phase == migrate.Observe && r.Over
		}
		if done {
			if now := f.w.ServerNow(); now.Before(over) {
				t.Errorf("lost at message %d: moved to %v, %v before its lease is over", nth, r.Phase,
					over.Sub(now))
			}
			return messages
		}
		if tries == 100 {
			t.Errorf("lost at message %d: it never opens: %v", nth, r.Gate.Blocks)
			return messages
		}
		f.w.Pass(3 * time.Second)
		var err error
		if r, err = l.run(bg, f.w.Pool(),
			f.options(Options{Go: true, Forget: []string{allDead}})); err != nil {
			t.Fatal(err)
		}
	}
}
