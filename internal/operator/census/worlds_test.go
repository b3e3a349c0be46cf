// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/drift"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

// world is one server and its old clients in true time, which only the test
// knows. Nothing sleeps: the next event is taken from a queue.
type world struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	now     time.Duration // true time since the at(0)
	queue   []event
	server  wall
	dialect dialect.Dialect
	gap     time.Duration // longest duration of an attempt, by the server's clock
	leases  []time.Duration
	census  *Census
	keys    map[string]stood
	polls   bool                       // true: the watch polls; false: it uses MONITOR
	truth   map[string][]time.Duration // true offsets at the seen writes, by the writer's address
}

// stood is the value of a key, and the offset of the clock that wrote it.
type stood struct {
	value string
	off   time.Duration
}

// wall is a clock: legs of constant rate, each beginning with a step.
type wall struct{ legs []drift.Leg }

func (w *wall) at(t time.Duration) time.Time {
	i := len(w.legs) - 1
	for i > 0 && w.legs[i].From > t {
		i--
	}
	return at(0).Add(t + w.legs[i].OffsetAt(t))
}

// leg begins a leg with another rate after a step.
func (w *wall) leg(from, step time.Duration, rate float64) {
	off := step
	if n := len(w.legs); n > 0 {
		off += w.legs[n-1].OffsetAt(from)
	}
	w.legs = append(w.legs, drift.Leg{From: from, Offset: off, Rate: rate})
}

// wallOf draws a clock: steady, stepping, slewed, or of a virtual machine with
// a bad clock.
func (w *world) wallOf(most time.Duration) wall {
	var c wall
	c.leg(0, w.between(-most, most), 0)
	rates := []float64{0, 30e-6, -500e-6, 0.02, -0.02}
	rate := rates[w.random.IntN(len(rates))]
	c.leg(0, 0, rate)
	for at := time.Duration(0); ; {
		if at += w.between(time.Second, 20*time.Second); at > worldLasts {
			return c
		}
		switch w.random.IntN(4) {
		case 0: // chrony slews for a while
			c.leg(at, 0, 83333e-6*float64(1-2*w.random.IntN(2)))
			at += w.between(time.Second, 12*time.Second)
			c.leg(at, 0, rate)
		case 1:
			c.leg(at, w.step(5*time.Millisecond, 10*time.Second), rate)
		case 2:
			c.leg(at, w.step(5*time.Millisecond, 100*time.Millisecond), rate)
		}
	}
}

const worldLasts = 45 * time.Second

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

func (w *world) step(least, most time.Duration) time.Duration {
	return w.between(least, most) * time.Duration(1-2*w.random.IntN(2))
}

// event is something that happens at a true time, those of one time by n.
type event struct {
	at time.Duration
	n  int
	do func()
}

// next takes the soonest event from the queue.
func (w *world) next() event {
	slices.SortStableFunc(w.queue, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n))
	})
	e := w.queue[0]
	w.queue = w.queue[1:]
	return e
}

func (w *world) after(d time.Duration, do func()) {
	w.queue = append(w.queue, event{w.now + d, int(w.random.Int32()), do})
}

// thread is one loop of an old client: a clock, a connection and a key.
type thread struct {
	*world
	clock     *wall
	addr, key string
	lease     time.Duration
	pace, job time.Duration
	pipelined bool // it does not wait for replies
	read      time.Duration
	stamp     string
}

// executed returns after which time a message sent now is executed: within the
// gap after the clock reading.
func (th *thread) executed() time.Duration {
	left := th.gap - (th.now - th.read)
	if left <= 0 {
		return 0
	}
	if th.random.IntN(20) == 0 {
		return th.between(0, left)
	}
	return min(left, th.between(100*time.Microsecond, 2*time.Millisecond))
}

func (th *thread) begin() {
	th.read = th.now
	text, err := th.dialect.Stamp(th.clock.at(th.now), th.lease,
		th.dialect.NewID([16]byte{byte(len(th.addr)), byte(th.random.Uint32())}))
	if err != nil {
		th.t.Fatal(err)
	}
	th.stamp = text
	th.after(th.executed(), th.setnx)
	if th.pipelined {
		th.after(th.pace, th.begin)
	}
}

func (th *thread) setnx() {
	_, held := th.keys[th.key]
	th.tell("SETNX", th.stamp, !held)
	switch {
	case th.pipelined:
	case held:
		th.after(th.executed(), th.get)
	default:
		th.after(th.job, th.del)
	}
}

func (th *thread) get() {
	before, held := th.keys[th.key]
	th.tell("GET", "", false)
	s, err := th.dialect.Decode(before.value, th.server.at(th.now))
	past := held && err == nil && th.clock.at(th.now).After(s.Expiry)
	if past && th.now-th.read < th.gap {
		if th.dialect.Restamp {
			th.read = th.now
			th.stamp, _ = th.dialect.Stamp(th.clock.at(th.now), th.lease, "")
		}
		th.after(th.executed(), th.getset)
		return
	}
	th.after(th.pace, th.begin)
}

func (th *thread) getset() {
	th.tell("GETSET", th.stamp, true)
	if th.random.IntN(2) == 0 {
		th.after(th.pace, th.begin)
		return
	}
	th.after(th.job, th.del)
}

func (th *thread) del() {
	delete(th.keys, th.key)
	th.tell("DEL", "", false)
	th.after(th.pace, th.begin)
}

// tell shows a command to the census and records the true offset of its clock.
func (th *thread) tell(name, value string, stands bool) {
	at := th.server.at(th.now).Truncate(time.Microsecond)
	words := []string{name, th.key}
	if value != "" {
		words = append(words, value)
		// The server may have stepped since the reading. What counts is its
		// present clock, carried back.
		off := th.clock.at(th.read).Add(th.now - th.read).Sub(th.server.at(th.now))
		if stands {
			th.keys[th.key] = stood{value, off}
		}
		if !th.polls {
			th.truth[th.addr] = append(th.truth[th.addr], off)
		}
	}
	if !th.polls {
		th.census.Add(offset.Observed{At: at, Kind: offset.ObservedCommand, Addr: th.addr, Args: words})
	}
}

// look polls the keys.
func (w *world) look(pace time.Duration, last map[string]string) {
	at := w.server.at(w.now).Truncate(time.Microsecond)
	for _, key := range worldKeys {
		v, there := w.keys[key]
		w.census.Add(offset.Observed{
			At: at, Kind: offset.ObservedLook, Key: key, Value: v.value, Exists: there})
		if before, looked := last[key]; there && looked && before != v.value {
			w.truth[""] = append(w.truth[""], v.off)
		}
		last[key] = v.value
	}
	w.after(pace, func() { w.look(pace, last) })
}

var worldKeys = []string{"stock", "order"}

// serverSteps moves the server's clock now and then. A watch notices the larger
// steps a while later. What the census concluded before must hold after them
// too.
func (w *world) serverSteps() {
	w.server.leg(0, 0, 0)
	for at := w.between(0, 20*time.Second); at < worldLasts-2*time.Second; at += w.between(time.Second,
		20*time.Second) {
		step := w.step(5*time.Millisecond,
			[]time.Duration{19 * time.Millisecond, 3 * time.Second}[w.random.IntN(2)])
		w.server.leg(at, step, 0)
		if step.Abs() <= unseenStep {
			continue
		}
		w.queue = append(w.queue, event{at + w.between(0, time.Second), 0, func() {
			w.census.Add(offset.Observed{
				At: w.server.at(w.now).Truncate(time.Microsecond), Kind: offset.ObservedStep,
				For: step.Truncate(time.Microsecond)})
			for addr, all := range w.truth {
				// The offsets were compared with the clock from before or after
				// the step.
				w.truth[addr] = append(all, beside(all, -step)...)
			}
		}})
	}
}

func beside(all []time.Duration, by time.Duration) []time.Duration {
	low, high := slices.Min(all), slices.Max(all)
	if by < 0 {
		return []time.Duration{low + by.Truncate(time.Microsecond)}
	}
	return []time.Duration{high + by.Truncate(time.Microsecond)}
}

// people adds the clients of a world: alone on a connection, two threads on a
// key, pipelining, behind a proxy, or on a unix socket.
func (w *world) people() {
	clocks := []wall{w.wallOf(30 * time.Second), w.wallOf(30 * time.Second), w.wallOf(time.Second)}
	connections := []string{"10.0.0.1:1", "10.0.0.2:1", "unix:/run/redis.sock", "10.0.0.9:1"}
	for i := range 2 + w.random.IntN(4) {
		clock := w.random.IntN(len(clocks))
		th := &thread{
			world: w, clock: &clocks[clock], key: worldKeys[w.random.IntN(2)],
			lease: w.leases[w.random.IntN(len(w.leases))],
			pace: w.between(50*time.Millisecond,
				[]time.Duration{200 * time.Millisecond, 5 * time.Second}[w.random.IntN(2)]),
			job: w.between(10*time.Millisecond, 8*time.Second), pipelined: w.random.IntN(4) == 0,
			addr: fmt.Sprintf("10.0.1.%d:1", i),
		}
		if w.random.IntN(2) == 0 {
			th.addr = connections[w.random.IntN(len(connections))]
		}
		w.after(w.between(0, time.Second), th.begin)
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 15)), keys: map[string]stood{},
		truth: map[string][]time.Duration{},
	}
	w.dialect = []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID(), dialect.Page(),
		dialect.Errorception(), dialect.RedisObjects()}[w.random.IntN(5)]
	w.leases = [][]time.Duration{{30 * time.Second},
		{10 * time.Second, 15 * time.Second, 20 * time.Second}}[w.random.IntN(2)]
	w.gap = []time.Duration{5 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}[w.random.IntN(3)]
	w.polls = w.random.IntN(4) == 0
	cfg := Config{
		Dialects: []dialect.Dialect{w.dialect}, Lease: w.leases[0], Greatest: slices.Max(w.leases),
		Gap: w.gap, LeaseChecked: true,
		MaxWriters: []int{2, 1000}[w.random.IntN(2)],
	}
	var err error
	if w.census, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	w.census.Add(offset.Observed{At: at(0).Add(-time.Second), Kind: offset.ObservedGap,
		Reason: reading.OfRun + " first"})
	if w.random.IntN(4) > 0 {
		w.serverSteps()
	} else {
		w.server.leg(0, 0, 0)
	}
	w.people()
	if w.polls {
		w.after(0, func() { w.look(w.between(50*time.Millisecond, 2*time.Second), map[string]string{}) })
	}
	return w
}

// run plays the world to its end and compares the evidence with the truth.
func (w *world) run() {
	for len(w.queue) > 0 {
		e := w.next()
		if e.at >= worldLasts {
			break
		}
		w.now = max(w.now, e.at)
		e.do()
	}
	e, _ := w.census.Evidence()
	var all []time.Duration
	for addr, truth := range w.truth {
		all = append(all, truth...)
		i := slices.IndexFunc(e.Writers, func(v Writer) bool { return v.Addr == addr })
		if i < 0 {
			continue // forgotten, but included below
		}
		seen := e.Writers[i].Offset
		for _, off := range truth {
			if e.ForgottenWriters == 0 && !seen.Contains(off) {
				w.t.Fatalf("world %d: %s: %v is not in %v, by %d writes", w.seed, addr, off, seen.Interval,
					seen.Writes)
			}
		}
		if why := e.Writers[i].Shared; strings.HasPrefix(addr, "unix:") &&
			(why == "" || len(e.Writers[i].Steps) > 0) {
			w.t.Fatalf("world %d: %s is shared: %q, %v", w.seed, addr, why, e.Writers[i].Steps)
		}
	}
	if len(all) == 0 {
		return
	}
	least, most := slices.Min(all), slices.Max(all)
	if s := e.Spread; !s.Sound() || s.Guaranteed < most-least || s.Proved > most-least {
		w.t.Fatalf("world %d: spread %+v, and offsets were from %v to %v", w.seed, s, least, most)
	}
	if b, a := e.Behind, e.Ahead; b.AtLeast > max(0, -least) ||
		a.AtLeast > max(0, most) {
		w.t.Fatalf("world %d: behind %+v, ahead %+v, and offsets were from %v to %v", w.seed, b, a, least,
			most)
	}
}

// Five hundred random worlds of clocks. Clocks step by 5 ms or more, slew, and
// run at wrong rates, off by 20,000 ppm as on some virtual machines; the
// server's clock steps too. Clients share and pipeline connections, use a key
// in two threads, write every 50 ms to 5 s, and pause for up to the gap. At
// each seen write, the interval of the address contains the offset of its
// clock.
func TestTrueOffsetsLieInTheirIntervals(t *testing.T) {
	for seed := range seeds.Range(t, 15_000, 500) {
		newWorld(t, seed).run()
	}
}
