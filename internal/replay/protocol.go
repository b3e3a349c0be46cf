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
	"github.com/getsetlock/getsetlock/migrate"
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
	Moves(p *Play, e skew.Event, record skew.Phase)
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
	b.Tune(lock.Config{TTL: p.ticks(p.sc.Ours.TTL), RetryEvery: p.period()})
	return hardened{b}, nil
}

// terms let the backend write what the model writes, whether the rules allow it or not: that they
// refuse what they must is another test's.
func (p *Play) terms() dialect.Terms {
	const room = 1000
	sc, d := p.sc, p.dialect
	t := dialect.Terms{Lease: p.ticks(room), Greatest: p.ticks(room), Spread: time.Nanosecond, Gap: time.Nanosecond}
	if sc.Ours.Settle > 0 || sc.Ours.Long > 0 {
		t.Gap = p.ticks(sc.Gap)
	}
	if p.stamps() {
		// The spread is by how much L outlives its stamp: in the model the takeover margin and two ticks,
		// and the gap where L's end is compared with M's.
		t.Spread = p.ticks(sc.Ours.TakeoverMargin + 2)
		if d.ServerExpires() && t.Gap == time.Nanosecond {
			t.Spread += p.ticks(sc.Gap)
		}
	}
	if sc.ServerStep != 0 {
		t.Spread, p.loose = time.Nanosecond, true
	}
	switch {
	case sc.Ours.Long > 0: // the first lease is cut to what the rule allows
		t.Lease = p.ticks(sc.Ours.TTL) - d.C() + t.Spread + t.Gap
		t.Greatest = t.Lease
	case sc.Ours.Unchanged > 0 || sc.ServerStep != 0: // where the greatest lease is a time that counts
		t.Lease, t.Greatest = p.ticks(sc.Lease), p.ticks(sc.Lease)
	}
	return t
}

// stamps: ours may write one.
func (p *Play) stamps() bool {
	return phased(p.first()) == migrate.Observe && p.dialect.HasStamp()
}

// period is how often the Client of ours is to look at a held key, so that looks Sparse ticks apart still
// follow each other: three of its periods.
func (p *Play) period() time.Duration {
	return max(p.ticks(p.sc.Ours.Sparse)/3, time.Millisecond)
}

func (p *Play) judge() legacy.Takeover {
	o := p.sc.Ours
	if o.Unchanged > 0 {
		c := 0 // of the dialect, in the model's ticks, which the policy adds by itself
		if p.dialect.Slack > 0 && !p.dialect.Inclusive {
			c = 1
		}
		return legacy.Unchanged(p.ticks(o.Unchanged - c))
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
func (Hardened) Moves(*Play, skew.Event, skew.Phase) {}

// Modern is package modern's, the token lock alone.
type Modern struct{}

type tokens struct{ *modern.Backend }

func (tokens) Takeovers() int64 { return 0 }

// Begin puts the lock where the token stands alone. There is no L.
func (Modern) Begin(p *Play) { p.l, p.m = "none", p.key }

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
func (Modern) Moves(*Play, skew.Event, skew.Phase) {}
