package legacy

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Judge is what Hardened decides by, without the connection: the memory of what was seen on the keys
// and of the server's clock, and the [Takeover] that is asked. It is for a package that takes the same
// two keys by scripts of its own, as package migrate does.
type Judge struct{ h *hardened }

// NewJudge returns a Judge for a Hardened configuration.
func NewJudge(cfg Config) (*Judge, error) {
	cfg.Mode = Hardened
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Judge{newHardened(&server{cfg: cfg, dialect: cfg.Dialect, clock: clock{clocks.New(cfg.Clock)}})}, nil
}

// Share makes the Judge and a Hardened backend one memory, of the keys and of the
// server's clock. A program that goes by one of them and then by the other must
// not forget a step that it saw. It is called before either is used.
func (j *Judge) Share(b Backend) {
	if h, ok := b.(*hardened); ok {
		j.h.watch, j.h.clock = h.watch, h.clock
	}
}

// Config returns the configuration with its defaults.
func (j *Judge) Config() Config { return j.h.cfg }

// Tune and Fits are those of a Hardened backend.
func (j *Judge) Tune(cfg lock.Config) lock.Config { return j.h.Tune(cfg) }

// Fits refuses what a Hardened backend refuses.
func (j *Judge) Fits(ttl, renewEvery, margin time.Duration) error {
	return j.h.Fits(ttl, renewEvery, margin)
}

// Stats returns what was counted: Foreign, Steps and Sparse.
func (j *Judge) Stats() Stats { return j.h.Stats() }

// RoundTrip is when a look was under way: from before it was sent until its reply came.
type RoundTrip struct{ roundTrip }

// Begin reads the clock before a look is sent, End after its reply came.
func (j *Judge) Begin() RoundTrip { return RoundTrip{j.h.clock.begin()} }

// End completes r, whose reply has just come.
func (j *Judge) End(r RoundTrip) RoundTrip { return RoundTrip{j.h.clock.end(r.roundTrip)} }

// Read makes an Observation of what a script saw, in the form of observe.lua: type, value (its first
// kilobyte), size, PTTL, M, its PTTL, seconds and microseconds of the server's clock. name is what the
// caller calls the lock and l its key. Nothing is remembered.
func (j *Judge) Read(name, l string, reply any, at RoundTrip) (Observation, error) {
	return j.h.look(newKeys(name, l, true), reply, at.roundTrip)
}

// Note joins an Observation to those before it.
func (j *Judge) Note(o Observation) Observation {
	j.h.note(&o)
	return o
}

// SawClock notes a reading of the server's clock that came without a look at the key.
func (j *Judge) SawClock(at RoundTrip, micros int64) { j.h.sawClock(at.roundTrip, micros) }

// Look completes an Observation that was noted: if its stamp has passed and only
// the age of a look is missing, it asks the server that mux talks to for the
// look that is remembered there, which this one becomes if there is none. The
// Observation then says so in Looked, or why not in Unremembered. ttl is the
// lease that is asked for.
func (j *Judge) Look(ctx context.Context, mux *wire.Mux, name string, o Observation, ttl time.Duration) Observation {
	return j.h.judge(ctx, mux, newKeys(name, o.Key, true), o, ttl)
}

// Bounds are the Behind and Ahead that are judged by, as in [dialect.Terms]: what
// the configuration claims, and what the server's clock has gained or lost on
// this process since its first look, in tenths of a second, so that a drift does
// not change them at every look. Unknown stays unset.
func (j *Judge) Bounds() (behind, ahead time.Duration) {
	add := func(claim time.Duration, drift int64) time.Duration {
		d, known := dialect.Claimed(claim)
		if !known {
			return 0
		}
		return dialect.Claim(d + roundUp(time.Duration(drift), 100*time.Millisecond))
	}
	pace := &j.h.watch.pace
	return add(j.h.cfg.Terms.Behind, pace.fast.Load()), add(j.h.cfg.Terms.Ahead, pace.slow.Load())
}

// Polite is what is known of old clients that poll for the keys, by the names on
// the server, and of this process's work on them.
func (j *Judge) Polite() *polite.Memory { return j.h.watch.polite }

// Forget drops what was seen of a key that was taken since.
func (j *Judge) Forget(l string) { j.h.watch.forget(l) }

// MayTakeOver decides on an Observation that was noted.
func (j *Judge) MayTakeOver(o Observation) bool { return j.h.mayTakeOver(o) }

// Held is the error of an attempt that found the key taken: a [*lock.HeldError], or a [*TypeError].
func (j *Judge) Held(name string, o Observation) error {
	return j.h.held(newKeys(name, o.Key, true), o)
}
