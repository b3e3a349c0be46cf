// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// Bridge is package migrate's bridge, in every phase. The schedule moves the
// record. What a member has read of it is the phase that its bridge is given.
type Bridge struct {
	// Sweep is the script that deletes tombstones.
	Sweep string

	mu      sync.Mutex
	members map[string]*member
}

// member is a migrate.PhaseSource that the schedule sets.
type member struct {
	mu    sync.Mutex
	phase migrate.Phase
}

func (m *member) Phase(context.Context) (migrate.Phase, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.phase == migrate.NoPhase {
		return m.phase, migrate.ErrNoPhase
	}
	return m.phase, nil
}

type bridged struct{ *migrate.Bridge }

func (b bridged) Takeovers() int64 { return b.Stats().Takeovers }

// composed is a bridge together with another store, which no other client uses.
type composed struct {
	*migrate.Composed
	bridged
}

func (c composed) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return c.Composed.Contract().Try(ctx, key, ttl)
}

func (c composed) Close() error { return c.Composed.Close() }

// phased returns the phase with a name; "" is none.
func phased(p model.Phase) migrate.Phase {
	got, err := migrate.ParsePhase(string(p))
	if err != nil {
		return migrate.NoPhase
	}
	return got
}

// Begin writes the tombstone if the scenario begins with it.
func (b *Bridge) Begin(p *Play) {
	b.members = map[string]*member{}
	first := phased(p.first())
	if first < migrate.Sealed || first == migrate.Clean || p.sc.Ours.NoTombstone {
		return
	}
	tomb, err := p.dialect.EncodeValue(p.dialect.Tombstone())
	if err == nil {
		err = p.world.Mini.Set(p.l, tomb)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.world.Mini.SetTTL(p.l, 30*24*time.Hour)
}

func (p *Play) first() model.Phase {
	if p.sc.Ours.Phase == "" {
		return model.PhaseObserve
	}
	return p.sc.Ours.Phase
}

// Open opens one member's bridge. Its phase outlives its crashes.
func (b *Bridge) Open(p *Play, name string, pool *redis.Pool, clock lock.Clock) (Backend, error) {
	b.mu.Lock()
	m := b.members[name]
	if m == nil {
		m = &member{phase: phased(p.first())}
		if p.sc.Ours.Joins && name != "ours1" {
			m.phase = migrate.NoPhase // until it has read the record
		}
		b.members[name] = m
	}
	b.mu.Unlock()
	o := p.sc.Ours
	made, err := migrate.New(pool, migrate.Config{
		Phases: m, Dialect: p.dialect, Terms: p.terms(), Takeover: p.judge(), SettleAlways: o.SettleAlways,
		LongLeases: o.Long > 0, Wake: lock.WakeOff, Timeout: patience, Clock: clock,
	})
	if err != nil {
		return nil, err
	}
	made.Contract().(backend.Advisor).Advise(
		backend.Settings{TTL: p.ticks(o.TTL), Margin: time.Millisecond, RetryEvery: p.period()})
	if o.Composes && name == "ours1" {
		both, err := migrate.Compose(made, locktest.NewStore(clock).Backend())
		return composed{both, bridged{made}}, err
	}
	return bridged{made}, nil
}

// Attempt returns the token in either acquire script's arguments. That of phase
// observe has more arguments than all others. Of the bridge's own scripts, only
// the acquire script has M's value, a TTL and the mark that the value names.
func (b *Bridge) Attempt(cmd redistest.Command) string {
	if token := (Hardened{}).Attempt(cmd); token != "" {
		return token
	}
	args := scriptArgs(cmd)
	if len(args) < 4 {
		return ""
	}
	value, ttl, guard := args[0], args[1], args[2]
	if b.Mark(value) != guard || ttl == guard {
		return ""
	}
	token, _, _ := strings.Cut(value, " ")
	return token
}

// Mark returns the second word of M.
func (b *Bridge) Mark(m string) string {
	words := strings.Split(m, " ")
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

// Learn tells a member's bridge the record's phase.
func (b *Bridge) Learn(_ *Play, name string, phase model.Phase) {
	m := b.members[name]
	m.mu.Lock()
	m.phase = phased(phase)
	m.mu.Unlock()
}

// Phaseless makes a member one that never read a record, and returns its
// attempt's error.
func (p *Play) Phaseless(who string) error {
	p.t.Helper()
	p.protocol.Learn(p, who, "")
	for _, o := range p.ours {
		if o.name == who {
			o.try()
			return o.free("without a phase").(leased).err
		}
	}
	p.fail("no client is called %q", who)
	return nil
}

// Moves runs the sweep; the record itself is only in the schedule.
func (b *Bridge) Moves(p *Play, e model.Event, record model.Phase) {
	if e.What != "sweep" {
		return
	}
	tomb, err := p.dialect.EncodeValue(p.dialect.Tombstone())
	if err != nil {
		p.t.Fatal(err)
	}
	beside := 1
	if record == model.PhaseClean {
		beside = 0
	}
	pool := p.world.Pool()
	c := pool.Get()
	defer c.Close()
	n, err := redis.Int(c.Do("EVAL", b.Sweep, 2, p.l, p.m, tomb, beside))
	if err != nil || n != 1 {
		p.fail("the sweep left the tombstone: %d, %v", n, err)
	}
}

// String names the protocol and the number of members.
func (b *Bridge) String() string { return fmt.Sprintf("bridge of %d members", len(b.members)) }
