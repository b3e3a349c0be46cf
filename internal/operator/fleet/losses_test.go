package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
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
				for nth, last := 1, 1; nth <= last && !t.Failed(); nth += step {
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

// TestManyMembersNeverFindAGateOpenBesideALease: members are killed, paused and
// cut off at random, and two operators step whenever they may. A lease counts
// from when it is taken until its member may no longer renew it. In the end the
// dead members are forgotten, and the fleet goes on.
func TestManyMembersNeverFindAGateOpenBesideALease(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(f *fleet) { f.manyMembers(rand.New(rand.NewPCG(seed, 7)), 25) })
		})
	}
}

// hold is a lease, by what the server would have of it.
type hold struct {
	phase migrate.Phase
	end   func()
	until time.Time
}

// actor is a member, and what it holds.
type actor struct {
	m    *migrate.Member
	wire *redistest.Wire
	dead bool
	held []hold
}

// acts does something at random: it dies, is cut off, is heard again, or takes
// a lease.
func (a *actor) acts(f *fleet, r *rand.Rand) {
	const ttl = 20 * time.Second
	switch r.IntN(6) {
	case 0:
		if !a.dead && r.IntN(8) == 0 {
			a.dead = true
			_ = a.m.Leave()
		}
	case 1:
		a.wire.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
		a.wire.Cut()
	case 2:
		a.wire.Calm()
	default:
		if p, end, err := a.m.Begin(bg, ttl); err == nil && !a.dead {
			a.held = append(a.held, hold{p, end, f.w.ServerNow().Add(ttl)})
		}
	}
}

// ends gives up the leases that are over at now.
func (a *actor) ends(now time.Time) {
	var left []hold
	for _, h := range a.held {
		if now.Before(h.until) {
			left = append(left, h)
		} else {
			h.end()
		}
	}
	a.held = left
}

func (f *fleet) manyMembers(r *rand.Rand, count int) {
	f.init(Options{})
	var all []*actor
	for range count {
		a := &actor{wire: f.w.Wire()}
		var err error
		if a.m, err = migrate.Join(bg, a.wire.Pool(), f.timed(migrate.MemberConfig{})); err != nil {
			f.t.Fatal(err)
		}
		a.m.Attach(func(context.Context, string) error { return nil })
		f.t.Cleanup(func() { _ = a.m.Leave() })
		all = append(all, a)
	}
	f.beats()
	for range 80 {
		all[r.IntN(len(all))].acts(f, r)
		f.w.Pass(time.Duration(r.IntN(4000)) * time.Millisecond)
		for _, a := range all {
			a.ends(f.w.ServerNow())
		}
		f.steps([]verb{doAdvance, doAdvance, doBack}[r.IntN(3)], all)
	}
	for _, a := range all {
		a.wire.Calm()
		a.ends(f.w.ServerNow().Add(time.Hour))
	}
	f.w.Pass(3 * time.Minute)
	from := f.now().Phase
	for range 3 {
		if r := f.must(doAdvance, Options{Go: true, Forget: []string{allDead}}); r.Moved ||
			from >= migrate.Modern {
			return
		}
		f.w.Pass(time.Minute)
	}
	f.t.Errorf("from %v no gate opens in the end: %v", from, f.must(doStatus, Options{}).Gate.Blocks)
}

// steps runs a verb. It fails if that moves the fleet while a lease runs of a
// phase two steps away.
func (f *fleet) steps(v verb, all []*actor) {
	f.t.Helper()
	from := f.now().Phase
	report, err := v(bg, f, Options{Go: true, Forget: []string{allDead}})
	if err != nil || !report.Moved {
		return
	}
	for _, a := range all {
		for _, h := range a.held {
			if h.phase != from && h.phase != report.Phase {
				f.t.Errorf("from %v to %v beside a lease of %v", from, report.Phase, h.phase)
			}
		}
	}
}

// now is the record.
func (f *fleet) now() migrate.Record {
	f.t.Helper()
	text, _ := f.w.Mini.Get(record.Key(""))
	r, err := migrate.ParseRecord(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}
