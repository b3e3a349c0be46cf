// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/skew"
)

// person is an old client in a simulated fleet: a clock, a dialect and a
// connection.
type person struct {
	addr    string
	dialect dialect.Dialect
	lease   time.Duration
	offset  time.Duration
	id      string
}

// stage plays the commands of persons in random order over true time. The
// server's clock shows true time.
type stage struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	lines  []string
}

// longestStand is longer than a client is stopped within one attempt.
const longestStand = 2500 * time.Millisecond

func (s *stage) delay() {
	s.now = s.now.Add(100*time.Microsecond +
		time.Duration(s.random.ExpFloat64()*float64(300*time.Microsecond)))
	if s.random.Float64() < 0.01 {
		s.now = s.now.Add(time.Duration(s.random.Int64N(int64(2 * time.Second))))
	}
}

func (s *stage) line(p *person, words ...string) {
	s.delay()
	s.lines = append(s.lines, asServer(s.now.UnixMicro(), 0, p.addr, words...))
}

// poll makes one failed attempt of each person, in turn.
func (s *stage) poll(all ...*person) {
	s.now = s.now.Add(100 * time.Millisecond)
	for _, p := range all {
		s.delay()
		text, err := p.dialect.Stamp(s.now.Add(p.offset), p.lease, p.id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.line(p, "SETNX", "stock:"+p.dialect.Name, text)
		s.line(p, "GET", "stock:"+p.dialect.Name)
	}
}

// census feeds the lines through everything that a watch feeds them through,
// then replays the record. Both results must be the same.
func (s *stage) census(cfg Config) *Result {
	s.t.Helper()
	c, err := census.New(cfg.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	var record strings.Builder
	cfg.Record = &record
	rec := newRecorder(cfg)
	filter := newFilter(filled(s.t, cfg), func(string) {})
	var events []offset.Observed
	for _, l := range s.lines {
		if _, err := new(parser).parse(l, 8, longestArg); err != nil {
			s.t.Fatalf("%q: %v", l, err)
		}
		events = filter.line(l, events)
	}
	for _, o := range events {
		rec.event(o)
		c.Add(o)
	}
	if rec.err != nil {
		s.t.Fatal(rec.err)
	}
	again, err := Replay(strings.NewReader(record.String()), cfg)
	e, findings := c.Evidence()
	live := &Result{Evidence: e, Findings: findings}
	if err != nil || fmt.Sprintf("%+v", again.Findings) != fmt.Sprintf("%+v", live.Findings) ||
		fmt.Sprintf("%+v", again.Evidence.Spread) != fmt.Sprintf("%+v", live.Evidence.Spread) {
		s.t.Fatalf("replayed: %v\n%+v\nlive\n%+v", err, again, live)
	}
	return live
}

func newStage(t *testing.T, seed uint64) *stage {
	return &stage{t: t, random: rand.New(rand.NewPCG(seed, 7)), now: at(0)}
}

func (s *stage) person(i int, d dialect.Dialect, lease time.Duration) *person {
	p := &person{addr: fmt.Sprintf("10.0.0.%d:1", i), dialect: d, lease: lease,
		id: d.NewID([16]byte{byte(i)})}
	p.offset = time.Duration(s.random.Int64N(int64(10*time.Second))) - 5*time.Second
	return p
}

func writerAt(t *testing.T, r *Result, addr string) census.Writer {
	t.Helper()
	i := slices.IndexFunc(r.Evidence.Writers, func(w census.Writer) bool { return w.Addr == addr })
	if i < 0 {
		t.Fatalf("no writer at %s", addr)
	}
	return r.Evidence.Writers[i]
}

// The lease is given. The dialects vary, and are named or left to be
// recognized.
func TestSimulatedOffsetsLieInTheirIntervals(t *testing.T) {
	dialects := []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID(), dialect.Page(),
		dialect.Errorception(), dialect.RedisObjects(), dialect.Template()}
	for seed := range uint64(100) {
		s := newStage(t, seed)
		d := dialects[seed%6]
		people := []*person{s.person(1, d, time.Minute), s.person(2, d, time.Minute),
			s.person(3, d, time.Minute)}
		for range 30 {
			s.poll(people...)
		}
		cfg := Config{Config: census.Config{Lease: time.Minute, Gap: longestStand}}
		if seed%2 == 0 {
			cfg.Dialects = []dialect.Dialect{d}
		}
		r := s.census(cfg)
		var low, high time.Duration = 1 << 62, -1 << 62
		for _, p := range people {
			w := writerAt(t, r, p.addr)
			if !w.Offset.Contains(p.offset) || !w.Offset.Bounded() || len(w.Steps) > 0 {
				t.Fatalf("seed %d, %s: %v is not in %v, or %v", seed, d.Name, p.offset, w.Offset.Interval,
					w.Steps)
			}
			low, high = min(low, p.offset), max(high, p.offset)
		}
		if sp := r.Evidence.Spread; !sp.Sound() || sp.Proved > high-low || sp.Guaranteed < high-low {
			t.Fatalf("seed %d: spread %+v, and it is %v", seed, sp, high-low)
		}
		v, err := skew.Law{Dialect: d, Lease: time.Minute, Spread: high - low}.Verdict()
		if job := r.Evidence.LongestSafeJob; err != nil || job.Value > v.LongestJob.Bound+time.Second ||
			!job.Known() {
			t.Fatalf("seed %d: longest safe job %+v, and it is %v", seed, job, v.LongestJob)
		}
	}
}

func TestCensusNamesStepsAndSharedAddresses(t *testing.T) {
	for seed := range uint64(100) {
		s := newStage(t, seed)
		d := dialect.Jedis()
		steady, stepping := s.person(1, d, time.Minute), s.person(2, d, time.Minute)
		one, other := s.person(3, d, time.Minute), s.person(3, d, time.Minute)
		// If their clocks were whole seconds apart, the two would read as
		// clients with two leases.
		other.offset = one.offset + time.Duration(seed%7+1)*time.Second - 430*time.Millisecond
		// A smaller step could be one late write.
		by := time.Duration(s.random.Int64N(int64(9*time.Second))) + 2*longestStand
		if seed%2 == 0 {
			by = -by
		}
		for range 15 {
			s.poll(steady, stepping, one, other)
		}
		stepping.offset += by
		for range 15 {
			s.poll(steady, stepping, one, other)
		}
		r := s.census(
			Config{Config: census.Config{
				Lease: time.Minute, Dialects: []dialect.Dialect{d}, Gap: longestStand}})
		if w := writerAt(t, r, steady.addr); len(w.Steps) > 0 || !w.Offset.Contains(steady.offset) {
			t.Fatalf("seed %d: steady clock called %v", seed, w.Steps)
		}
		w := writerAt(t, r, stepping.addr)
		if len(w.Steps) != 1 || w.Steps[0].By.Abs() > by.Abs() || (w.Steps[0].By < 0) != (by < 0) ||
			!w.Offset.Contains(stepping.offset) || !w.Offset.Contains(stepping.offset-by) {
			t.Fatalf("seed %d: a step of %v: %v, %v", seed, by, w.Steps, w.Offset)
		}
		w = writerAt(t, r, one.addr)
		if w.Shared == "" || !w.Offset.Contains(one.offset) || !w.Offset.Contains(other.offset) ||
			len(w.Steps) > 0 {
			t.Fatalf("seed %d: two clocks, %v and %v, behind one address: %+v, %v", seed, other.offset,
				one.offset, w.Offset, w.Steps)
		}
		offsets := []time.Duration{steady.offset, stepping.offset, stepping.offset - by, one.offset,
			other.offset}
		apart := slices.Max(offsets) - slices.Min(offsets)
		if sp := r.Evidence.Spread; !sp.Sound() || sp.Guaranteed < apart || sp.Proved > apart {
			t.Fatalf("seed %d: spread %+v, and the clocks are %v apart over the watch", seed, sp, apart)
		}
		for _, kind := range []string{"step", "shared_address"} {
			if !slices.ContainsFunc(r.Findings, func(f census.Finding) bool { return f.Kind == kind }) {
				t.Fatalf("seed %d: no finding %s in %+v", seed, kind, r.Findings)
			}
		}
	}
}

func TestGuessedLeasesAreMarkedAsGuessed(t *testing.T) {
	s := newStage(t, 1)
	short, long := s.person(1, dialect.Jedis(), 10*time.Second), s.person(2, dialect.Jedis(), 2*time.Minute)
	far := s.person(3, dialect.Jedis(), 10*time.Second)
	short.offset, long.offset, far.offset = 300*time.Millisecond, -400*time.Millisecond, 7*time.Second
	also := s.person(4, dialect.Jedis(), 10*time.Second)
	also.offset = 0
	for range 30 {
		s.poll(short, long, far, also)
	}
	e := s.census(Config{}).Evidence
	if e.SmallestLease.Value != 10*time.Second || e.GreatestLease.Value != 2*time.Minute ||
		e.SmallestLease.Basis != census.Inferred || e.SmallestLease.Note == "" {
		t.Errorf("leases %+v … %+v", e.SmallestLease, e.GreatestLease)
	}
	r := s.census(Config{})
	for _, p := range []*person{short, long, far, also} {
		w := writerAt(t, r, p.addr)
		if w.Lease.Value != p.lease || !w.Offset.Contains(p.offset) || !w.Offset.LeaseGuessed {
			t.Errorf("%s: lease %+v, offset %v, in truth %v and %v", p.addr, w.Lease, w.Offset.Interval,
				p.lease, p.offset)
		}
	}
	if e.LongestSafeJob.Basis != census.Inferred || !strings.Contains(e.LongestSafeJob.Note, "guessed") {
		t.Errorf("safe job %+v", e.LongestSafeJob)
	}
}

// Polls between bursts see stamps of the same clients without their names, so
// the stamps count as a nameless writer's. A finding about that writer appears
// only if no named client can have written the stamp.
func TestWriterSeenByPollsCountsInTheSpread(t *testing.T) {
	for _, c := range []struct{ ahead, apart time.Duration }{
		{0, 3 * time.Second}, {50 * time.Second, 50 * time.Second}} {
		s := newStage(t, 9)
		p := s.person(1, dialect.Jedis(), time.Minute)
		for range 20 {
			s.poll(p)
		}
		cfg := census.Config{Lease: time.Minute, Gap: longestStand, Dialects: []dialect.Dialect{p.dialect}}
		folded, err := census.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		filter := newFilter(filled(t, Config{Config: cfg}), func(string) {})
		var events []offset.Observed
		for _, l := range s.lines {
			events = filter.line(l, events)
		}
		events = append(events, reading.GapOf(census.SourceMonitor, s.now, time.Hour, census.HoleBudget,
			"between bursts"))
		text, err := p.dialect.Stamp(s.now.Add(p.offset+c.ahead), time.Minute, "")
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, offset.Observed{
			At: s.now.Add(time.Second), Kind: offset.ObservedLook, Key: "stock:Jedis"},
			offset.Observed{At: s.now.Add(1100 * time.Millisecond), Kind: offset.ObservedLook,
				Key: "stock:Jedis", Exists: true, Value: text})
		for _, o := range events {
			folded.Add(o)
		}
		e, findings := folded.Evidence()
		if got := e.Spread; !got.Sound() || got.Guaranteed < c.ahead ||
			got.Guaranteed > c.apart+5*time.Second || len(e.Writers) != 2 {
			t.Errorf("%v ahead: %+v of %d writers", c.ahead, got, len(e.Writers))
		}
		off := slices.ContainsFunc(findings,
			func(f census.Finding) bool { return f.Kind == "clock_off" && f.Writer == "" })
		if off != (c.ahead > 0) {
			t.Errorf("%v ahead: findings %+v", c.ahead, findings)
		}
	}
}
