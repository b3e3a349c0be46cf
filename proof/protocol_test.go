// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// Protocol is what a getsetlock client uses: all that the replay has to know of
// a backend.
type Protocol interface {
	// Begin prepares the world in which the scenario begins.
	Begin(p *Play)
	// Open opens one client's backend.
	Open(p *Play, name string, pool *redis.Pool, clock lock.Clock) (Backend, error)
	// Attempt returns the token in a command that takes the key; "" for any
	// other command.
	Attempt(cmd redistest.Command) string
	// Mark returns what the lease depends on, by the value of M.
	Mark(m string) string
	// Learn lets a client read the fleet's record; Moves moves the record.
	Learn(p *Play, name string, phase model.Phase)
	Moves(p *Play, e model.Event, record model.Phase)
}

// Backend is a backend.Store as the replay needs it.
type Backend interface {
	backend.Store
	io.Closer
	// Takeovers counts other clients' values that were replaced.
	Takeovers() int64
}

// Hardened is package legacy's Hardened, in phase observe.
type Hardened struct{}

// hardened counts its takeovers.
type hardened struct{ *legacy.Backend }

func (h hardened) Takeovers() int64 { return h.Stats().Takeovers }

// Begin leaves the world empty.
func (Hardened) Begin(*Play) {}

// Open opens a hardened backend.
func (Hardened) Open(p *Play, _ string, pool *redis.Pool, clock lock.Clock) (Backend, error) {
	b, err := legacy.New(pool, legacy.Config{
		Mode: legacy.Hardened, Dialect: p.dialect, Terms: p.terms(), Takeover: p.judge(),
		SettleAlways: p.sc.Ours.SettleAlways, Wake: lock.WakeOff, Timeout: patience, Clock: clock,
	})
	if err != nil {
		return nil, err
	}
	b.Contract().(backend.Advisor).Advise(
		backend.Settings{TTL: p.ticks(p.sc.Ours.TTL), RetryEvery: p.period()})
	return hardened{b}, nil
}

// terms let the backend write what the model writes, whether the rules allow it
// or not. Another test checks that they refuse what they must.
func (p *Play) terms() dialect.Terms {
	const room = 1000
	sc, d := p.sc, p.dialect
	t := dialect.Terms{Lease: p.ticks(room), Greatest: p.ticks(room), Spread: time.Nanosecond,
		Gap: time.Nanosecond}
	switch {
	case !d.HasTakeover() || sc.Lease == 0:
	case sc.Ours.Unchanged > 0:
		t.Lease, t.Greatest = p.ticks(sc.Lease), p.ticks(sc.Lease)
	default:
		t.Greatest = p.greatest()
		t.Lease = t.Greatest
		p.margins(&t)
	}
	switch {
	case sc.Ours.Settle > 0 || sc.Ours.Long > 0:
		t.Gap = p.ticks(sc.Gap)
	case p.stamps() && d.ServerExpires():
		t.Gap = p.ticks(max(sc.Unit, 1)) // by this L outlives M
	}
	if sc.Ours.Long > 0 { // the first lease is cut to what the rule allows
		t.Lease = p.ticks(sc.Ours.TTL) - d.EffectiveSlack() + t.Spread + t.Gap
		t.Greatest = max(t.Lease, t.Greatest)
	}
	return t
}

// greatest returns the greatest lease with which a look has to be as old as in
// the model. The model counts whole ticks, so it does not notice a part of one
// less.
func (p *Play) greatest() time.Duration {
	look := p.sc.Ours.Look
	if look == 0 {
		look = max(p.sc.Lease, p.sc.Greatest) + max(p.sc.Unit, 1)
		if p.sc.Dialect.Slack > 0 && !p.sc.Dialect.Inclusive {
			look += max(p.sc.Unit, 1)
		}
	}
	return p.ticks(look) - max(p.dialect.EffectiveSlack(), 0) - p.dialect.Unit.Step() - p.tick/lag
}

// margins sets what getsetlock clients know of the clocks. A scenario's
// takeover margin is the greater of spread and Behind; which of them it is
// decides whether a second look is needed.
func (p *Play) margins(t *dialect.Terms) {
	o := p.sc.Ours
	margin := dialect.Claim(p.ticks(o.TakeoverMargin))
	if o.Known {
		// A claim counts while no stamp contradicts it, so lease and gap are
		// the true ones here.
		t.Behind, t.Lease, t.Gap = margin, p.ticks(p.sc.Lease)+t.Spread, p.ticks(p.sc.Gap)
	} else {
		t.Spread = margin
	}
}

// stamps reports whether getsetlock clients may write a stamp.
func (p *Play) stamps() bool {
	return phased(p.first()) == migrate.Observe && p.dialect.HasStamp()
}

// period is the Client's retry period, so that looks Sparse ticks apart still
// belong together: three periods.
func (p *Play) period() time.Duration {
	return max(p.ticks(p.sc.Ours.Sparse)/3, time.Millisecond)
}

// judge returns the policy that terms do not imply.
func (p *Play) judge() legacy.Takeover {
	o := p.sc.Ours
	if o.Unchanged > 0 {
		c := 0 // the dialect's c in the model's ticks, which the policy adds by itself
		if p.dialect.Slack > 0 && !p.dialect.Inclusive {
			c = 1
		}
		return legacy.Unchanged(p.ticks(o.Unchanged - c))
	}
	return nil // by the terms
}

// Attempt returns the token from the acquire script's arguments.
func (Hardened) Attempt(cmd redistest.Command) string { return scriptToken(cmd, 11) }

// scriptToken returns the first argument after the keys, if the script has that
// many.
func scriptToken(cmd redistest.Command, args int) string {
	if got := scriptArgs(cmd); len(got) == args {
		return got[0]
	}
	return ""
}

// scriptArgs returns the arguments after the keys.
func scriptArgs(cmd redistest.Command) []string {
	if !cmd.Is("EVALSHA") && !cmd.Is("EVAL") || len(cmd) < 3 {
		return nil
	}
	keys, err := strconv.Atoi(cmd[2])
	if err != nil || len(cmd) < 3+keys {
		return nil
	}
	return cmd[3+keys:]
}

// Mark returns what follows the token.
func (Hardened) Mark(m string) string {
	_, mark, _ := strings.Cut(m, " ")
	return mark
}

// Learn does nothing: there is no record.
func (Hardened) Learn(*Play, string, model.Phase) {}

// Moves does nothing either.
func (Hardened) Moves(*Play, model.Event, model.Phase) {}

// Modern is package modern's backend, the token lock alone.
type Modern struct{}

type tokens struct{ *modern.Backend }

func (tokens) Takeovers() int64 { return 0 }

// Begin makes the key hold only the token. There is no L.
func (Modern) Begin(p *Play) { p.l, p.m = "none", p.key }

// Open opens a modern backend.
func (Modern) Open(_ *Play, _ string, pool *redis.Pool, _ lock.Clock) (Backend, error) {
	b, err := modern.New(pool, modern.Config{Timeout: patience})
	return tokens{b}, err
}

// Attempt returns the token in SET key token NX PX ms.
func (Modern) Attempt(cmd redistest.Command) string {
	if cmd.Is("SET") && len(cmd) == 6 && strings.EqualFold(cmd[3], "NX") {
		return cmd[2]
	}
	return ""
}

// Mark is empty: there is only the token.
func (Modern) Mark(string) string { return "" }

// Learn does nothing: there is no record.
func (Modern) Learn(*Play, string, model.Phase) {}

// Moves does nothing either.
func (Modern) Moves(*Play, model.Event, model.Phase) {}
