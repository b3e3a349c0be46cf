// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// What a fleet has on the server.
const (
	space     = "k"
	phaseKey  = "gsl:phase:" + space
	rosterKey = "gsl:roster:" + space
)

// longAgo is how long a record has had its phase, and how long it is that an
// old client tried. firstEpoch is the record's epoch.
const (
	longAgo    = time.Hour
	firstEpoch = 7
)

// lab is a server with an orderly fleet, which may take any step. A trial
// changes one thing, and asks what a verb says.
type lab struct {
	*rand.Rand
	server  *redistest.World
	options fleet.Options
	record  migrate.Record
	members []migrate.MemberState
	sight   fleet.Sighting
	info    map[string]string
	keys    map[string]string     // locks and marks
	roster  map[string]string     // fields that no member writes like that
	others  []migrate.MemberState // of a namespace within this one
	now     time.Time
	during  func(redistest.Command) // called before each command of the verb; nil: nothing
	rules   []redistest.Rule        // what the server answers otherwise
}

type verb = func(context.Context, *redis.Pool, fleet.Options) (*fleet.Report, error)

// trial is one thing that is not as usual, and what a verb must say of it.
type trial struct {
	name string
	from migrate.Phase // of the record; NoPhase: any from which a step leads
	verb verb          // nil: the next step
	harm func(*lab)
	// rules close the gate, in order of their names. Empty: it is open, and the
	// verb does what it is for.
	rules string
	fails bool              // the verb returns an error
	after func(*lab) string // what is wrong then; nil: nothing else is looked at
}

// TestTrials makes each trial four times, with what it leaves open drawn anew.
func TestTrials(t *testing.T) {
	names := map[string]bool{}
	for _, c := range trials {
		name := c.name + " in " + c.from.String()
		if names[name] {
			t.Errorf("there are two trials of %s", name)
		}
		names[name] = true
		for seed := range uint64(4) {
			synctest.Test(t, func(t *testing.T) {
				server := redistest.Bubble(t)
				l := &lab{Rand: rand.New(rand.NewPCG(seed, 0)), server: server, now: server.ServerNow()}
				if wrong := l.try(t, c); wrong != "" {
					t.Errorf("%s, from %v in %s: %s", c.name, l.record.Phase, l.options.Dialect.Name, wrong)
				}
			})
		}
	}
}

// orderly makes the fleet.
func (l *lab) orderly(from migrate.Phase) {
	if from == migrate.NoPhase {
		from = pick(l, migrate.Observe, migrate.Dual, migrate.Sealed, migrate.Modern)
	}
	all := slices.DeleteFunc(dialect.Presets(), func(d dialect.Dialect) bool {
		return !d.HasTakeover() || d.ServerExpires() || d.Name == "Machinery" // which never releases
	})
	d := pick(l, all...)
	l.options = fleet.Options{Namespace: space, Dialect: d, Go: l.IntN(2) == 0, Timeout: time.Second,
		Claims: fleet.Claims{Lease: 30 * time.Second, Greatest: time.Minute, Job: 20 * time.Second,
			Spread: time.Second, Gap: 500 * time.Millisecond, Idle: 10 * time.Minute}}
	l.record = migrate.Record{Epoch: firstEpoch, Phase: from, Since: l.now.Add(-2 * longAgo).UTC(),
		Dialect: d.Name, Roster: "nonce", Run: "run-1", Every: time.Second, TTL: 5 * time.Second}
	if from == migrate.Clean {
		l.record.Target = "t"
	}
	for _, id := range []string{"a", "b", "c"} {
		l.members = append(l.members, migrate.MemberState{ID: id, Dialect: d.Name, Epoch: firstEpoch,
			Phase: from, Seen: l.now, Since: l.now.Add(-longAgo), Every: time.Second,
			Renews: 30 * time.Second, TTL: 5 * time.Second, First: 5 * time.Second,
			Probe: "ok", Target: "t", Sight: "a"})
	}
	l.sight = fleet.Sighting{Observer: "sim", From: l.now.Add(-longAgo), Until: l.now,
		Window: fleet.Window{QuietUntil: l.now, Quiet: longAgo}}
	l.info, l.keys, l.roster = map[string]string{"run_id": "run-1"}, map[string]string{}, map[string]string{}
	if from >= migrate.Sealed {
		l.keys["k1"] = l.tomb()
	}
}

func pick[T any](l *lab, of ...T) T { return of[l.IntN(len(of))] }

// speak gives the old clients another dialect.
func (l *lab) speak(d dialect.Dialect) {
	l.options.Dialect, l.record.Dialect = d, d.Name
	l.all(func(s *migrate.MemberState) { s.Dialect = d.Name })
}

func (l *lab) tomb() string {
	tomb, _ := l.options.Dialect.EncodeValue(l.options.Dialect.Tombstone())
	return tomb
}

// someID is the identity of an old client whose dialect has one.
const someID = "00000000-0000-4000-8000-000000000000"

// stamp returns what an old client writes for a lease.
func (l *lab) stamp(lease time.Duration) string {
	text, err := l.options.Dialect.Stamp(l.now, lease, someID)
	value, bad := l.options.Dialect.EncodeValue(text)
	if err != nil || bad != nil {
		panic(fmt.Sprint(err, bad))
	}
	return value
}

// write puts the fleet on the server.
func (l *lab) write() {
	m := l.server.Mini
	m.FlushAll()
	l.server.Info(l.info)
	for key, value := range l.keys {
		_ = m.Set(key, value)
		m.SetTTL(key, 40*24*time.Hour)
	}
	if l.record.Epoch > 0 {
		_ = m.Set(phaseKey, l.record.String())
	}
	m.HSet(rosterKey, "nonce", "nonce")
	for _, s := range l.members {
		m.HSet(rosterKey, s.ID, s.String())
	}
	for id, text := range l.roster {
		m.HSet(rosterKey, id, text)
	}
	for _, s := range l.others {
		m.HSet(rosterKey+"0", s.ID, s.String())
	}
	if l.sight.Observer == "" {
		return
	}
	pool := l.pool()
	defer pool.Close()
	if err := l.sight.Keep(context.Background(), pool, space); err != nil {
		panic(err)
	}
}

// try makes one trial and says what is wrong.
func (l *lab) try(t *testing.T, c trial) string {
	l.orderly(c.from)
	if c.harm != nil {
		c.harm(l)
	}
	l.write()
	before := l.server.Mini.Dump()
	r, err := l.calls(t.Context(), c.verb)
	switch {
	case l.mayNotChange() && l.server.Mini.Dump() != before:
		return "a verb without Go changes something"
	case c.fails && err != nil && c.after != nil:
		return c.after(l)
	case err != nil || c.fails:
		return fmt.Sprintf("the verb returns the error %v", err)
	case r.Gate == nil:
		return "there is no gate"
	}
	if wrong := l.answers(r, c.rules); wrong != "" {
		return wrong
	}
	return l.then(c)
}

// calls calls a verb; nil: the one that takes the next step.
func (l *lab) calls(ctx context.Context, act verb) (*fleet.Report, error) {
	pool := l.pool()
	defer pool.Close()
	if act == nil {
		act = next(l.record)
	}
	return act(ctx, pool, l.options)
}

// next returns the verb that takes the next step.
func next(r migrate.Record) verb {
	switch {
	case r.Pending == migrate.Clean, r.Phase == migrate.NoPhase:
		return fleet.Init
	case r.Phase >= migrate.Modern:
		return fleet.CleanUp
	}
	return fleet.Advance
}

// then looks at the server afterwards.
func (l *lab) then(c trial) string {
	now, next := l.recorded(), l.record.Phase+1
	switch {
	case !l.options.Go && l.record.Epoch > 0:
	case c.verb == nil && c.rules == "" && (now.Phase != next || now.Epoch != firstEpoch+1):
		return fmt.Sprintf("the record says %v of epoch %d after the step", now.Phase, now.Epoch)
	case c.after != nil:
		return c.after(l)
	}
	return ""
}

// pool dials the server, and lets a trial do something before each command.
func (l *lab) pool() *redis.Pool {
	watch := redistest.Rule{Times: -1, When: func(c redistest.Command) bool {
		if l.during != nil {
			l.during(c)
		}
		return false
	}}
	return l.server.FaultyPool(append(l.rules, watch)...)
}

// mayNotChange reports whether the server must stay as it is. A first record
// needs no Go.
func (l *lab) mayNotChange() bool { return !l.options.Go && l.record.Epoch > 0 && l.during == nil }

// answers compares what closes the gate with what must.
func (l *lab) answers(r *fleet.Report, rules string) string {
	for _, b := range r.Gate.Blocks {
		if len(b.Detail) < 20 {
			return b.Detail + " is no sentence"
		}
	}
	got := blocks(r)
	if r.Moved {
		got = "" // the gate says what is left to be done
	}
	switch {
	case got != rules:
		return fmt.Sprintf("the gate is closed by %q and not by %q: %v", got, rules, r.Gate.Blocks)
	case rules != "" && l.recorded().Phase != l.record.Phase && l.record.Epoch > 0:
		return "a step is taken through a closed gate"
	}
	return ""
}

func (l *lab) recorded() migrate.Record {
	text, _ := l.server.Mini.Get(phaseKey)
	r, _ := migrate.ParseRecord(text)
	return r
}

// blocks lists the rules that close a gate.
func blocks(r *fleet.Report) string {
	var rules []string
	for _, b := range r.Gate.Blocks {
		rules = append(rules, b.Rule)
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), " ")
}

// last is the member that trials change.
func (l *lab) last() *migrate.MemberState { return &l.members[len(l.members)-1] }

// all changes every member.
func (l *lab) all(change func(*migrate.MemberState)) {
	for i := range l.members {
		change(&l.members[i])
	}
}

// fact is a fact about old clients.
func (l *lab) fact(at time.Duration) fleet.Fact {
	return fleet.Fact{Time: at, Basis: "measured", At: l.now}
}

// act is an act of an old client, some time ago.
func (l *lab) act(ago time.Duration) *fleet.Touch {
	return &fleet.Touch{At: l.now.Add(-ago), Key: "k0", What: "lost"}
}
