package legacy

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Judge is how Hardened decides, without a connection: the memory of what was
// seen on the keys and of the server's clock, and the [Takeover] policy. It
// serves a package that takes the same two keys with its own scripts, as
// package migrate does.
type Judge struct{ h *hardened }

// NewJudge returns a Judge for a Hardened configuration.
func NewJudge(cfg Config) (*Judge, error) {
	cfg.Mode = Hardened
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Judge{newHardened(&server{cfg: cfg, dialect: cfg.Dialect, clock: clock{clocks.New(cfg.Clock)}})},
		nil
}

// Share makes the Judge and a Hardened backend use one memory of the keys and
// of the server's clock. A program that uses both must not forget a clock step
// that one of them saw. Call it before using either.
func (j *Judge) Share(b *Backend) {
	if h, ok := b.engine.(*hardened); ok {
		j.h.watch, j.h.clock = h.watch, h.clock
	}
}

// Config returns the configuration with its defaults.
func (j *Judge) Config() Config { return j.h.cfg }

// Advise fills in what a Hardened backend fills in.
func (j *Judge) Advise(cfg backend.Settings) backend.Settings { return j.h.Advise(cfg) }

// Fits refuses what a Hardened backend refuses.
func (j *Judge) Fits(ttl, renewEvery, margin time.Duration) error {
	return j.h.Fits(ttl, renewEvery, margin)
}

// Stats returns counts: only Foreign, Steps and Sparse are used.
func (j *Judge) Stats() Stats { return j.h.stats() }

// RoundTrip says when a look was under way: from before it was sent until its
// reply came.
type RoundTrip struct{ roundTrip }

// Begin reads the clock before a look is sent.
func (j *Judge) Begin() RoundTrip { return RoundTrip{j.h.clock.begin()} }

// End completes r, whose reply has just come.
func (j *Judge) End(r RoundTrip) RoundTrip { return RoundTrip{j.h.clock.end(r.roundTrip)} }

// Read makes an Observation of a script's reply in the form of observe.lua:
// type, value (its first kilobyte), size, PTTL, M, its PTTL, and the server's
// clock in seconds and microseconds. name is the caller's name for the lock and
// l its key. Nothing is remembered.
func (j *Judge) Read(name, l string, reply any, at RoundTrip) (Observation, error) {
	o, err := j.h.look(newKeys(name, l, true), reply, at.roundTrip)
	o.Seen = j.h.watch.contradictions()
	return o, err
}

// Note adds an Observation to those before it.
func (j *Judge) Note(o Observation) Observation {
	j.h.note(&o)
	return o
}

// SawClock notes a reading of the server's clock that came without a look at
// the key.
func (j *Judge) SawClock(at RoundTrip, micros int64) { j.h.sawClock(at.roundTrip, micros) }

// Look completes an Observation after Note. If its stamp has passed and only
// the age of a look is missing, Look asks mux's server for the look that it
// remembers. If there is none, the server remembers this one. The result has
// the age in Looked, or the reason for its absence in Unremembered. ttl is the
// requested lease.
func (j *Judge) Look(ctx context.Context, mux *wire.Mux, name string, o Observation,
	ttl time.Duration) Observation {
	return j.h.judge(ctx, mux, newKeys(name, o.Key, true), o, ttl)
}

// Bounds returns the Behind and Ahead that the Judge uses, as in
// [dialect.Terms]. Each is what the configuration claims plus what the server's
// clock has gained or lost on this process since its first look. The sum is
// rounded up to tenths of a second, so that a drift does not change it at every
// look. An unknown bound is zero, and so is one that was refuted.
func (j *Judge) Bounds() (behind, ahead time.Duration) {
	terms := j.h.cfg.Terms.Against(j.h.watch.contradictions())
	add := func(claim time.Duration, drift int64) time.Duration {
		d, known := dialect.Claimed(claim)
		if !known {
			return 0
		}
		return dialect.Claim(d + roundUp(time.Duration(drift), 100*time.Millisecond))
	}
	pace := &j.h.watch.pace
	return add(terms.Behind, pace.fast.Load()), add(terms.Ahead, pace.slow.Load())
}

// Told notes the lower bounds that other observers saw, Seen.Behind and
// Seen.Ahead, in place of those of an earlier call. A smaller claim is void.
func (j *Judge) Told(seen dialect.Seen) {
	j.h.watch.mu.Lock()
	defer j.h.watch.mu.Unlock()
	j.h.watch.told = seen
}

// Polite returns what is known of old clients that poll for the keys, and of
// this process's work on them. Keys are named as on the server.
func (j *Judge) Polite() *polite.Memory { return j.h.watch.polite }

// Forget drops what was seen of a key that has been taken since.
func (j *Judge) Forget(l string) { j.h.watch.forget(l) }

// MayTakeOver decides on an Observation after Note.
func (j *Judge) MayTakeOver(o Observation) bool { return j.h.mayTakeOver(o) }

// Held returns the error of an attempt that found the key taken: a
// [*backend.HeldError] or a [*TypeError].
func (j *Judge) Held(name string, o Observation) error {
	return j.h.held(newKeys(name, o.Key, true), o)
}
