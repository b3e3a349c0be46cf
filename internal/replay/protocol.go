package replay

import (
	"io"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/skew"
)

// Protocol is what a client of ours speaks: all that the replay has to know of a backend.
type Protocol interface {
	// Begin makes the world what the scenario begins with.
	Begin(p *Play)
	// Open makes one client's backend.
	Open(p *Play, name string, pool *redis.Pool, clock lock.Clock) (Backend, error)
	// Attempt is the token in a command that takes the key; "" of any other command.
	Attempt(cmd redistest.Command) string
	// Mark is what the value of M says that the lease hangs on.
	Mark(m string) string
	// Learn lets a client read the fleet's record, Moves moves that.
	Learn(p *Play, name string, phase skew.Phase)
	Moves(p *Play, e skew.Event)
}

// Backend is a lock.Backend as the replay needs it.
type Backend interface {
	lock.Backend
	io.Closer
	// Takeovers counts the values of others that were replaced.
	Takeovers() int64
}

// Hardened is package legacy's, phase observe.
type Hardened struct{}

// hardened counts its takeovers.
type hardened struct{ legacy.Backend }

func (h hardened) Takeovers() int64 { return h.Stats().Takeovers }

// Begin leaves the world empty.
func (Hardened) Begin(*Play) {}

// Open makes a hardened backend.
func (Hardened) Open(p *Play, _ string, pool *redis.Pool, clock lock.Clock) (Backend, error) {
	b, err := legacy.New(pool, legacy.Config{
		Mode: legacy.Hardened, Dialect: p.dialect, Terms: p.terms(), Takeover: p.judge(),
		SettleAlways: p.sc.Ours.SettleAlways, Wake: legacy.Off, Timeout: patience, Clock: clock,
	})
	if err != nil {
		return nil, err
	}
	// Its Client is asked to look at a held key so often that looks Sparse ticks apart still follow
	// each other: three of its periods.
	b.Tune(lock.Config{TTL: p.ticks(p.sc.Ours.TTL), RetryEvery: max(p.ticks(p.sc.Ours.Sparse)/3, time.Millisecond)})
	return hardened{b}, nil
}

// terms let the backend write what the model writes, whether the rules allow it or not: that they
// refuse what they must is another test's. The spread is by how much L outlives its stamp, which in the
// model is the takeover margin and two ticks.
func (p *Play) terms() dialect.Terms {
	const room = 1000
	t := dialect.Terms{Lease: p.ticks(room), Greatest: p.ticks(room), Spread: p.ticks(p.sc.Ours.TakeoverMargin + 2), Gap: time.Nanosecond}
	if p.sc.Ours.Unchanged > 0 {
		t.Greatest = p.ticks(p.sc.Lease)
		t.Lease = t.Greatest
	}
	switch {
	case p.sc.Ours.Settle > 0:
		t.Gap = p.ticks(p.sc.Gap)
	case p.dialect.ServerExpires():
		t.Spread += p.ticks(p.sc.Gap) // where L outlives M by the gap too
	}
	return t
}

func (p *Play) judge() legacy.Takeover {
	o := p.sc.Ours
	if o.Unchanged > 0 {
		return legacy.Unchanged(p.ticks(o.Unchanged) - p.dialect.C())
	}
	return legacy.ServerClock(p.ticks(o.TakeoverMargin))
}

// Attempt reads the acquire script's arguments.
func (Hardened) Attempt(cmd redistest.Command) string { return scriptToken(cmd, 11) }

// scriptToken is the first argument behind two keys, if the script has so many.
func scriptToken(cmd redistest.Command, args int) string {
	if (cmd.Is("EVALSHA") || cmd.Is("EVAL")) && len(cmd) == 5+args {
		return cmd[5]
	}
	return ""
}

// Mark is what stands behind the token.
func (Hardened) Mark(m string) string {
	_, mark, _ := strings.Cut(m, " ")
	return mark
}

// Learn is nothing: there is no record.
func (Hardened) Learn(*Play, string, skew.Phase) {}

// Moves is nothing either.
func (Hardened) Moves(*Play, skew.Event) {}

// Modern is package modern's, the token lock alone.
type Modern struct{}

type tokens struct{ *modern.Backend }

func (tokens) Takeovers() int64 { return 0 }

// Begin puts the lock where the token stands alone.
func (Modern) Begin(p *Play) { p.m = p.key }

// Open makes a modern backend.
func (Modern) Open(_ *Play, _ string, pool *redis.Pool, _ lock.Clock) (Backend, error) {
	b, err := modern.New(pool, modern.Config{Timeout: patience})
	return tokens{b}, err
}

// Attempt reads SET key token NX PX ms.
func (Modern) Attempt(cmd redistest.Command) string {
	if cmd.Is("SET") && len(cmd) == 6 && strings.EqualFold(cmd[3], "NX") {
		return cmd[2]
	}
	return ""
}

// Mark is nothing: the token is all.
func (Modern) Mark(string) string { return "" }

// Learn is nothing: there is no record.
func (Modern) Learn(*Play, string, skew.Phase) {}

// Moves is nothing either.
func (Modern) Moves(*Play, skew.Event) {}
