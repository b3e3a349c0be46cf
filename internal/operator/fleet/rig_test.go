// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
)

var bg = context.Background()

const (
	beatEvery = 5 * time.Second // between heartbeats, in a small fleet that sets nothing else
	livesFor  = time.Hour       // the sum of the members' lives on the server
)

// fleet is a world in a bubble, and how the tests of this package act in it.
type fleet struct {
	t *testing.T
	w *redistest.World

	operator *redistest.Clock // of the machine on which verbs run
}

func inBubble(t *testing.T, test func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&fleet{t: t, w: redistest.Bubble(t)}) })
}

// join registers a program whose scripts work.
func (f *fleet) join(cfg migrate.MemberConfig) *migrate.Member {
	f.t.Helper()
	m, err := migrate.Join(bg, f.w.Pool(), f.timed(cfg))
	if err != nil {
		f.t.Fatal(err)
	}
	m.Attach(func(context.Context, string) error { return nil })
	f.t.Cleanup(func() { _ = m.Leave() })
	return m
}

// wired adds a member that is reached by a wire of its own.
func (f *fleet) wired(cfg migrate.MemberConfig, rules ...redistest.Rule) (*redistest.Wire, *migrate.Member) {
	f.t.Helper()
	wire := f.w.Wire(rules...)
	m, err := migrate.Join(bg, wire.Pool(), f.timed(cfg))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = m.Leave() })
	return wire, m
}

func (f *fleet) timed(cfg migrate.MemberConfig) migrate.MemberConfig {
	if cfg.Clock == nil {
		cfg.Clock = f.w.Clock(redistest.Skew{})
	}
	return cfg
}

// options are those of an operator with complete claims.
func (f *fleet) options(o Options) Options {
	if f.operator == nil {
		f.operator = f.w.Clock(redistest.Skew{})
	}
	o.Clock = f.operator
	o.Claims = Claims{Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: 30 * time.Second,
		Idle: time.Minute, Gone: true}
	return o
}

type verb = func(context.Context, *fleet, Options) (*Report, error)

func (f *fleet) init(o Options) *Report    { f.t.Helper(); return f.must(doInit, o) }
func (f *fleet) advance(o Options) *Report { f.t.Helper(); return f.must(doAdvance, o) }
func (f *fleet) back(o Options) *Report    { f.t.Helper(); return f.must(doBack, o) }
func (f *fleet) clean(o Options) *Report   { f.t.Helper(); return f.must(doClean, o) }

func (f *fleet) sweep(o Options) *Report { f.t.Helper(); return f.must(doSweep, o) }

// as lets a fleet's operator call a verb.
func as(v func(context.Context, *redis.Pool, Options) (*Report, error)) verb {
	return func(ctx context.Context, f *fleet, o Options) (*Report, error) {
		return v(ctx, f.w.Pool(), f.options(o))
	}
}

var doInit, doAdvance, doBack, doClean, doSweep = as(Init), as(Advance), as(Back), as(CleanUp), as(Sweep)

func (f *fleet) must(v verb, o Options) *Report {
	f.t.Helper()
	r, err := v(bg, f, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// to brings the record and all members to a phase, over all those before it.
func (f *fleet) to(phase migrate.Phase) {
	f.t.Helper()
	if r := f.init(Options{}); !r.Moved {
		f.t.Fatalf("init: %v", r.Gate.Blocks)
	}
	f.beats()
	for p := migrate.Observe; p < phase; p++ {
		v := doAdvance
		if p == migrate.Modern {
			v = doClean
		}
		if r := f.must(v, Options{Go: true, Wait: time.Minute}); !r.Moved {
			f.t.Fatalf("from %v: %v", p, r.Gate.Blocks)
		}
		f.beats()
	}
}

// testNonce is the roster's in tests that write the record themselves.
const testNonce = "nonce"

// recorded writes a record, and its roster's nonce.
func (f *fleet) recorded(r migrate.Record) string {
	f.t.Helper()
	if !f.seated(record.NonceField) {
		f.w.Mini.HSet(record.RosterKey(""), record.NonceField, testNonce)
	}
	r.Roster = f.w.Mini.HGet(record.RosterKey(""), record.NonceField)
	if err := f.w.Mini.Set(record.Key(""), r.String()); err != nil {
		f.t.Fatal(err)
	}
	return r.String()
}

// seated reports that the roster has a field.
func (f *fleet) seated(field string) bool { return f.w.Mini.HGet(record.RosterKey(""), field) != "" }

// beats lets every member beat twice.
func (f *fleet) beats() { f.w.Pass(2*beatEvery + time.Second) }

// begin lets a member take a lease by its account alone.
func (f *fleet) begin(m *migrate.Member, ttl time.Duration) (end func()) {
	f.t.Helper()
	_, end, err := m.Begin(bg, ttl)
	if err != nil {
		f.t.Fatal(err)
	}
	return end
}

// locks is the bridge by which a program takes its locks.
func (f *fleet) locks(phases migrate.PhaseSource) *migrate.Bridge {
	f.t.Helper()
	b, err := migrate.New(f.w.Pool(), migrate.Config{Phases: phases, Clock: f.w.Clock(redistest.Skew{})})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = b.Close() })
	return b
}

// overtaken runs a verb of which the first such message is held up in front of
// the server until meanwhile has returned.
func (f *fleet) overtaken(v func(context.Context, *redis.Pool, Options) (*Report, error), o Options,
	held redistest.Rule, meanwhile func()) (*Report, error) {
	f.t.Helper()
	gate := redistest.NewGate()
	held.Do = redistest.HoldRequest(gate)
	wire, o := f.w.Wire(held), f.options(o)
	over := make(chan struct{})
	var r *Report
	var err error
	go func() {
		defer close(over)
		r, err = v(bg, wire.Pool(), o)
	}()
	<-gate.Reached()
	meanwhile()
	gate.Open()
	<-over
	return r, err
}

// writes puts a record in place of the server's.
func (f *fleet) writes(r migrate.Record) {
	f.t.Helper()
	if err := f.w.Mini.Set(record.Key(""), r.String()); err != nil {
		f.t.Fatal(err)
	}
}

// endsByItself says that a key is the sum of the members' lives, and nobody has
// to delete it.
func (f *fleet) endsByItself(key string) bool {
	return key == record.LivedKey("") && f.w.Mini.TTL(key) > 0 && f.w.Mini.TTL(key) <= livesFor
}

// moved fails unless the record says so.
func (f *fleet) at(phase migrate.Phase) migrate.Record {
	f.t.Helper()
	text, err := f.w.Mini.Get(record.Key(""))
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := migrate.ParseRecord(text)
	if err != nil || r.Phase != phase {
		f.t.Fatalf("the record says %v (%v), not %v", r.Phase, err, phase)
	}
	return r
}

// rules are the words of a gate's blocks, each once, sorted.
func rules(g *Gate) []string {
	var out []string
	if g != nil {
		for _, b := range g.Blocks {
			out = append(out, b.Rule)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// closed fails unless exactly these rules keep a gate closed.
func closed(t *testing.T, g *Gate, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := rules(g); !slices.Equal(got, want) || g != nil && g.Open != (len(want) == 0) {
		t.Errorf("closed by %q, it should be by %q:\n%v", got, want, g)
	}
}

func says(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v; it should say %q", err, words)
	}
}

func newMux(f *fleet) *wire.Mux {
	f.t.Helper()
	mux, err := wire.New(f.w.Pool(), wire.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = mux.Close() })
	return mux
}

// adjacent says whether one step leads from p to other. From Clean no step
// leads anywhere but to a new beginning.
func adjacent(p, other migrate.Phase) bool {
	valid := p >= migrate.Observe && p <= migrate.Clean && other >= migrate.Observe && other <= migrate.Clean
	return valid && (other == p+1 || other == p-1 && p != migrate.Clean)
}
