// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

// The simulator and the explorer are two programs for one protocol. Each event
// of a simulated fleet of old clients must be one that the explorer's machine
// allows in the same state, with the same outcome. It must leave the same key
// and the same holders. A tick of the machine is a unit of the dialect's
// stamps. The simulator's time also runs between ticks, since messages take a
// fraction of one.
//
// In the machine a key exists through the whole tick in which its TTL ends. So
// it is in these fleets: see Simulator.tick.
func TestExplorerAllowsEachSimulatedEvent(t *testing.T) {
	all := followedDialects()
	for _, d := range all {
		t.Run(d.Name, func(t *testing.T) {
			takeovers, ends := 0, 0
			for _, first := range seeds.With(t, 0) {
				for n := range uint64(runs(40)) {
					f := follow(t, d, first+n)
					takeovers, ends = takeovers+f.takeovers, ends+f.ended
					if t.Failed() {
						t.Fatalf("seed %d", first+n)
					}
				}
			}
			if takeovers == 0 && d.HasTakeover() {
				t.Error("no key was taken over, so little was compared")
			}
			if ends == 0 && d.ServerExpires() {
				t.Error("the server ended no key, so no TTL was compared")
			}
		})
	}
	if len(all) < 19 {
		t.Errorf("only %d dialects were followed", len(all))
	}
}

// followedDialects are the presets whose stamps are whole units, and one that
// sends EXPIRE after a won SETNX, which no preset does. Stamps in nanoseconds
// count milliseconds here, since a tick is a unit and a message takes a
// fraction of one.
func followedDialects() []dialect.Dialect {
	late := dialect.Jedis()
	late.Name, late.KeyTTL = "Jedis-expires", dialect.TTLAfterSetnx
	all := []dialect.Dialect{late}
	for _, d := range dialect.Presets() {
		if d.Unit == dialect.UnitNanos {
			d.Unit = dialect.UnitMillis
		}
		if d.HasStamp() && d.Unit.Step() < time.Millisecond || d.Name == "Bare" {
			continue // without TTL and takeover no client enters after the first crash
		}
		all = append(all, d)
	}
	return all
}

func runs(n int) int {
	if raced.On {
		return max(1, n/6)
	}
	return n
}

// Times of these fleets, in ticks.
const (
	followLease = 6
	followGap   = 8
	followApart = 3
)

// follow walks the machine along one simulation.
func follow(t *testing.T, d dialect.Dialect, seed uint64) *follower {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0xf0110))
	tick := max(d.Unit.Step(), time.Millisecond) // for constants and tokens, which have no unit
	ticks := func(low, high int) time.Duration { return tick * time.Duration(low+random.IntN(high-low+1)) }
	way := tick * time.Duration(1+random.IntN(9)) / 10
	fleet := Fleet{
		Dialect: d, Clients: 3, Lease: followLease * tick, Job: constantly(ticks(1, 12)),
		Rest:    constantly(ticks(0, 3)),
		Latency: constantly(way), Poll: ticks(1, 2),
		Acquisitions: 60, For: 4000 * tick, Seed: seed,
	}
	if d.KeyTTL == dialect.TTLEverybody {
		fleet.Poll = ticks(2*followLease, 3*followLease) // otherwise the waiters keep the key for ever
	}
	for range fleet.Clients {
		fleet.Offsets = append(fleet.Offsets, ticks(0, 2*followApart)-followApart*tick)
	}
	m, err := New(fleet)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := explore.New(explore.Scenario{
		Dialect: d, Old: fleet.Clients, Lease: followLease, Gap: followGap, Reply: followGap,
		Behind: followApart, Ahead: followApart, Overrun: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.tick = int64(tick)
	f := &follower{t: t, d: d, tick: int64(tick), way: int64(way), floor: int(machine.Floor),
		walk: explore.NewWalk(machine)}
	for _, e := range f.record(m) {
		if !f.take(e) {
			break
		}
	}
	f.takeovers = int(m.tally.takeovers)
	return f
}

// followed is one event of a simulation in the machine's words.
type followed struct {
	at     int64 // true time, ns since the start
	client int32
	what   string
	result string
	arg    int  // for clock and judge: the clock's offset in ticks
	key    bool // the event ran on the server; the fields below are the state after it
	value  simValue
	stored bool
	ends   int64 // end of the key's TTL; never without one
	holds  []bool
}

type follower struct {
	t         *testing.T
	d         dialect.Dialect
	tick, way int64
	floor     int // the machine does not tell stamps further back apart
	walk      *explore.Walk[explore.State]
	behind    []string // the last events, for the error

	takeovers int
	ended     int // keys whose TTL ended
}

// record runs the simulation and returns its events, in the order of true time.
func (f *follower) record(m *Simulator) []followed {
	var all []followed
	for range 4000 {
		i := m.queue[0]
		c := &m.clients[i]
		before, found := *c, m.key.present
		if found && m.key.expires <= c.next {
			f.ended++
			found = false
		}
		if !m.Run(1) {
			break
		}
		all = append(all, f.words(m, before, *c, found)...)
	}
	// A client's clock reading and its judgement of a reply have other times
	// than the event in which the simulator decides them.
	slices.SortStableFunc(all, func(a, b followed) int { return cmp.Compare(a.at, b.at) })
	return all
}

// words returns the machine's events for one event of the simulator: one or
// more. found says whether the key existed before it.
func (f *follower) words(m *Simulator, was, is simClient, found bool) []followed {
	now := m.now - simulationStart
	offset := func(c simClient) int { return int((c.clockRead - c.truth) / f.tick) }
	onServer := func(what, result string) followed { return f.onServer(m, was.name, what, result) }
	alone := func(at int64, what, result string) followed {
		return followed{at: at, client: was.name, what: what, result: result}
	}
	won := map[bool]string{true: "won", false: "lost"}
	switch was.pc {
	case simSetnx:
		clock := alone(was.first-simulationStart, "clock", "")
		if f.d.HasTakeover() { // the others read no clock
			clock.arg = offset(was)
		}
		return []followed{clock, onServer("setnx", won[is.holding])}
	case simLastSetnx:
		return []followed{onServer("setnx", won[is.holding])}
	case simGet:
		e := onServer("get", "value")
		if !is.present {
			e.result = "nil"
		}
		if is.pc == simGetset && f.d.Restamp {
			judge := alone(is.truth-simulationStart, "judge", "")
			judge.arg = offset(is)
			return []followed{e, judge}
		}
		return []followed{e}
	case simGetset:
		return f.getset(onServer, alone, now, is.holding, found)
	case simReleaseGet:
		kept := map[bool]string{true: "done", false: "kept"}[is.pc == simDel]
		return []followed{onServer("look", kept)}
	case simDel:
		return f.del(onServer, alone, now, found && !m.key.present)
	case simExpireWon, simExpireLost:
		return []followed{onServer("expire", "")}
	case simLeave:
		if f.d.ReleaseGets() {
			return nil // the look has said it
		}
		return []followed{alone(now, "decide", "kept")}
	}
	return nil
}

// onServer returns an event that has just run on the server, with the state
// after it.
func (f *follower) onServer(m *Simulator, name int32, what, result string) followed {
	e := followed{
		at: m.now - simulationStart, client: name, what: what, result: result, key: true,
		value: m.key.value, stored: m.key.present, ends: m.key.expires,
	}
	for i := range m.Clients {
		c := &m.clients[i]
		leaves := c.pc == simLeave && f.d.ReleaseGets() // the machine knows that since the look
		e.holds = append(e.holds, c.holding && !leaves)
	}
	return e
}

// getset is one event where the reply itself decides, and two where the client
// judges it by a new reading.
func (f *follower) getset(onServer func(string, string) followed, alone func(int64, string, string) followed,
	now int64, won, found bool) []followed {
	w := f.d.Wins
	atOnce := !found || !f.d.JudgesAnew || w == dialect.WinsSameText || w == dialect.WinsEqualNumber
	switch {
	case atOnce && won:
		return []followed{onServer("getset", "won")}
	case atOnce:
		return []followed{onServer("getset", "lost")}
	case won:
		return []followed{onServer("getset", "?"), alone(now+f.way, "reply", "won")}
	}
	return []followed{onServer("getset", "?"), alone(now+f.way, "quit", "")}
}

func (f *follower) del(onServer func(string, string) followed, alone func(int64, string, string) followed,
	now int64, deleted bool) []followed {
	e := onServer("del", "?")
	if f.d.Release == dialect.ReleaseCompare && !deleted {
		return []followed{onServer("decide", "kept")}
	}
	if r := f.d.Release; r == dialect.ReleaseOwnNotPast || r == dialect.ReleaseOwnAhead {
		return []followed{alone(now-f.way, "decide", "done"), e}
	}
	return []followed{e}
}

// take makes the walk do what the simulator did, and compares.
func (f *follower) take(e followed) bool {
	who := "old" + strconv.Itoa(int(e.client)+1)
	f.behind = append(f.behind, fmt.Sprintf("%.1f %s %s %+d %s", float64(e.at)/float64(f.tick), who, e.what,
		e.arg, e.result))
	for int64(f.walk.Now) < e.at/f.tick {
		n := f.walk.Find(explore.Tick)
		if n < 0 {
			return f.differ("the machine lets no time pass before this")
		}
		f.walk.Take(n)
	}
	n := f.find(who, e)
	if n < 0 && e.what == "clock" && f.d.JudgesAnew {
		// The machine keeps an attempt open as long as some clock could find
		// the value expired.
		if quit := f.find(who, followed{what: "quit"}); quit >= 0 {
			f.walk.Take(quit)
			n = f.find(who, e)
		}
	}
	if n < 0 && e.what == "look" && e.result == "kept" && f.d.Release == dialect.ReleaseValueLive {
		// The machine judges in the instant of the look, the simulator a
		// message later, when the value may have expired. For the key, a client
		// that leaves and one that crashes are the same.
		n = f.find(who, followed{what: "crash"})
	}
	if n < 0 && e.what == "quit" {
		return true // nothing to give up: the machine has already ended the attempt
	}
	if n < 0 {
		return f.differ("the machine allows no such event")
	}
	f.walk.Take(n)
	return !e.key || f.same(e)
}

func (f *follower) find(who string, e followed) int {
	return slices.IndexFunc(f.walk.Next(), func(o explore.Event) bool {
		if o.Who != who || o.What != e.what || e.result != "?" && o.Result != e.result {
			return false
		}
		return e.what != "clock" && e.what != "judge" || o.Arg == e.arg
	})
}

// same compares the key and the holders.
func (f *follower) same(e followed) bool {
	world := f.walk.State
	if kind := f.kind(e); kind != world.L.Kind {
		return f.differ(fmt.Sprintf("the simulator's key has kind %d, the machine's is %+v", kind, world.L))
	}
	if left := f.left(e.ends); int(world.L.TTL) != left {
		return f.differ(fmt.Sprintf("the simulator's key lasts %d ticks, the machine's is %+v", left,
			world.L))
	}
	at, want := int((e.value.stamp-simulationStart)/f.tick)-f.walk.Now, int(world.L.At)
	if world.L.Kind == explore.StampMark && at != want && (want > f.floor || at > want) {
		return f.differ(fmt.Sprintf("the simulator's stamp is %+d from now, the machine's %+v", at, world.L))
	}
	if f.d.JudgesAnew {
		return true // the simulator knows a winner a message earlier
	}
	for i, holds := range e.holds {
		if c := &world.Old[i]; holds != c.Holds() {
			return f.differ(fmt.Sprintf("old%d holds in the simulator: %v, in the machine it %s", i+1, holds,
				c.PC))
		}
	}
	return true
}

// left returns for how many ticks a key still exists, including this one; 0 for
// ever.
func (f *follower) left(ends int64) int {
	if ends == never {
		return 0
	}
	return int((ends-simulationStart)/f.tick) - f.walk.Now
}

// kind returns the kind of the key's value.
func (f *follower) kind(e followed) explore.MarkKind {
	switch {
	case !e.stored:
		return explore.NoMark
	case f.d.HasStamp():
		return explore.StampMark
	}
	return explore.ConstMark
}

func (f *follower) differ(how string) bool {
	f.t.Helper()
	last := f.behind[max(0, len(f.behind)-15):]
	f.t.Errorf("%s\nevents: %q\nallowed: %v\nworld: %+v", how, last, f.walk.Next(), f.walk.State)
	return false
}
