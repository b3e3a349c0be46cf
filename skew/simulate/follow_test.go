package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// The simulator and the explorer are two programs for one protocol. Here each event
// of a simulated fleet of old clients must be one that the explorer's machine allows
// in the same state, with the same outcome, and must leave the same key and the same
// holders. A tick of the machine is a unit of the dialect's stamps; the simulator's
// time runs between ticks too, since messages take a fraction of one.
//
// Dialects whose keys have a TTL are left out: the machine keeps a key through the
// whole tick in which its TTL ends.
func TestEachSimulatedEventIsOneOfTheExplorers(t *testing.T) {
	var followed int
	for _, d := range dialect.Presets() {
		if !d.HasTakeover() || !d.HasStamp() || d.KeyTTL != dialect.TTLNone || d.Acquire != dialect.AcquireSetnx || d.Unit.Step() < time.Millisecond {
			continue
		}
		followed++
		t.Run(d.Name, func(t *testing.T) {
			takeovers := 0
			for _, first := range seeds.With(t, 0) {
				for n := range uint64(runs(40)) {
					takeovers += follow(t, d, first+n)
					if t.Failed() {
						t.Fatalf("seed %d", first+n)
					}
				}
			}
			if takeovers == 0 {
				t.Error("no key was taken over, so little was compared")
			}
		})
	}
	if followed < 5 {
		t.Errorf("only %d dialects were followed", followed)
	}
}

func runs(n int) int {
	if raceEnabled {
		return max(1, n/10)
	}
	return n
}

// Times of these fleets, in ticks.
const (
	followLease = 6
	followGap   = 8
	followApart = 3
)

// follow walks the machine along one simulation, and counts the takeovers.
func follow(t *testing.T, d dialect.Dialect, seed uint64) int {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0xf0110))
	tick := d.Unit.Step()
	ticks := func(low, high int) time.Duration { return tick * time.Duration(low+random.IntN(high-low+1)) }
	way := tick * time.Duration(1+random.IntN(9)) / 10
	fleet := Fleet{
		Dialect: d, Clients: 3, Lease: followLease * tick, Job: Constant(ticks(1, 12)), Rest: Constant(ticks(0, 3)),
		Latency: Constant(way), Poll: ticks(1, 2), CrashShare: 0.3, Restart: Constant(ticks(1, 4)),
		Acquisitions: 60, For: 4000 * tick, Seed: seed,
	}
	for range fleet.Clients {
		fleet.Offsets = append(fleet.Offsets, ticks(0, 2*followApart)-followApart*tick)
	}
	m, err := New(fleet)
	if err != nil {
		t.Fatal(err)
	}
	walk, err := skew.NewWalk(skew.Scenario{
		Dialect: d, Old: fleet.Clients, Lease: followLease, Gap: followGap, Reply: followGap,
		Behind: followApart, Ahead: followApart, Overrun: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, d: d, tick: int64(tick), way: int64(way), walk: walk}
	for _, e := range f.record(m) {
		if !f.take(e) {
			break
		}
	}
	return int(m.tally.takeovers)
}

// followed is one event of a simulation in the machine's words.
type followed struct {
	at     int64 // true time, ns since the start
	client int32
	what   string
	result string
	arg    int  // of clock and judge: the clock's offset in ticks
	key    bool // the event ran on the server, and the rest is as it left things
	value  simValue
	stored bool
	holds  []bool
}

type follower struct {
	t         *testing.T
	d         dialect.Dialect
	tick, way int64
	walk      *skew.Walk
	now       int      // ticks that the walk has passed
	behind    []string // the last events, for the error
}

// record runs the simulation and says what happened, in the order of true time.
func (f *follower) record(m *Simulator) []followed {
	var all []followed
	for range 4000 {
		i := m.queue[0]
		c := &m.clients[i]
		before, found := *c, m.key.present
		if !m.Run(1) {
			break
		}
		all = append(all, f.words(m, before, *c, found)...)
	}
	// A client's reading and the judging of a reply lie at other times than the event in which the
	// simulator decides on them.
	slices.SortStableFunc(all, func(a, b followed) int { return cmp.Compare(a.at, b.at) })
	return all
}

// words is what one event of the simulator is for the machine: one event or more.
// found says whether the key was there before it.
func (f *follower) words(m *Simulator, was, is simClient, found bool) []followed {
	now := m.now - simulationStart
	offset := func(c simClient) int { return int((c.clockRead - c.truth) / f.tick) }
	onServer := func(what, result string) followed {
		e := followed{at: now, client: was.name, what: what, result: result, key: true, value: m.key.value, stored: m.key.present}
		for i := range m.clients {
			e.holds = append(e.holds, m.clients[i].holding)
		}
		return e
	}
	alone := func(at int64, what, result string) followed {
		return followed{at: at, client: was.name, what: what, result: result}
	}
	won := map[bool]string{true: "won", false: "lost"}
	switch was.pc {
	case simSetnx:
		clock := alone(was.first-simulationStart, "clock", "")
		clock.arg = offset(was)
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
		return f.del(onServer, alone, now, was)
	case simLeave:
		if f.d.ReleaseGets() {
			return nil // the look has said so
		}
		return []followed{alone(now, "decide", "kept")}
	case simCrash:
		return []followed{alone(now, "crash", "")}
	}
	return nil
}

// getset is one event where the reply decides by itself, and two where the client
// judges it by a new reading.
func (f *follower) getset(onServer func(string, string) followed, alone func(int64, string, string) followed, now int64, won, found bool) []followed {
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

func (f *follower) del(onServer func(string, string) followed, alone func(int64, string, string) followed, now int64, was simClient) []followed {
	e := onServer("del", "?")
	if r := f.d.Release; r == dialect.ReleaseOwnNotPast || r == dialect.ReleaseOwnAhead {
		return []followed{alone(now-f.way, "decide", "done"), e}
	}
	return []followed{e}
}

// take lets the walk do what the simulator did, and compares.
func (f *follower) take(e followed) bool {
	who := "old" + strconv.Itoa(int(e.client)+1)
	f.behind = append(f.behind, fmt.Sprintf("%.1f %s %s %+d %s", float64(e.at)/float64(f.tick), who, e.what, e.arg, e.result))
	for int64(f.now) < e.at/f.tick {
		n := f.walk.Find(skew.Tick)
		if n < 0 {
			return f.differ("the machine lets no time pass before this")
		}
		f.walk.Take(n)
		f.now++
	}
	n := f.find(who, e)
	if n < 0 && e.what == "clock" && f.d.JudgesAnew {
		// The machine keeps an attempt open as long as some clock could find the value expired.
		if quit := f.find(who, followed{what: "quit"}); quit >= 0 {
			f.walk.Take(quit)
			n = f.find(who, e)
		}
	}
	if n < 0 && e.what == "look" && e.result == "kept" && f.d.Release == dialect.ReleaseValueLive {
		// The machine judges in the instant of the look, the simulator a message later, when the value may
		// have expired. To the key, a client that leaves and one that crashes are the same.
		n = f.find(who, followed{what: "crash"})
	}
	if n < 0 && e.what == "quit" {
		return true // nothing to give up: the machine has ended the attempt by itself
	}
	if n < 0 {
		return f.differ("the machine allows no such event")
	}
	f.walk.Take(n)
	return !e.key || f.same(e)
}

func (f *follower) find(who string, e followed) int {
	return slices.IndexFunc(f.walk.Next(), func(o skew.Event) bool {
		if o.Who != who || o.What != e.what || e.result != "?" && o.Result != e.result {
			return false
		}
		return e.what != "clock" && e.what != "judge" || o.Arg == e.arg
	})
}

// same compares the key and the holders.
func (f *follower) same(e followed) bool {
	world := f.walk.World()
	if e.stored != (world.L.Kind != "") {
		return f.differ(fmt.Sprintf("the simulator's key is there: %v, the machine's is %+v", e.stored, world.L))
	}
	if e.stored {
		at := int((e.value.stamp-simulationStart)/f.tick) - f.now
		if at != world.L.At && (!world.L.Worn || at > world.L.At) {
			return f.differ(fmt.Sprintf("the simulator's stamp is %+d from now, the machine's %+v", at, world.L))
		}
	}
	if f.d.JudgesAnew {
		return true // the simulator knows a winner a message earlier
	}
	for i, holds := range e.holds {
		step := world.Old[i].Step
		if holds != (step == "holds" || step == "del") {
			return f.differ(fmt.Sprintf("old%d holds in the simulator: %v, in the machine it %s", i+1, holds, step))
		}
	}
	return true
}

func (f *follower) differ(how string) bool {
	f.t.Helper()
	last := f.behind[max(0, len(f.behind)-15):]
	f.t.Errorf("%s\nevents: %q\nallowed: %v\nworld: %+v", how, last, f.walk.Next(), f.walk.World())
	return false
}
