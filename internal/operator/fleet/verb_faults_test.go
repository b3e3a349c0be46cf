// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// Faults in every verb, at each of its commands. Whatever happens, the record
// is the old one, the new one or none, and members are never more than a step
// apart. Run again as docs/guide/migration.md says, the verb comes to the same
// phase, and never a step further. It leaves only the record, the members, and
// tombstones where they belong.

// verbCase is a row: a fleet in a phase, and a verb.
type verbCase struct {
	from, to migrate.Phase
	ready    func(*crew)
	run      func(context.Context, *redis.Pool, Options) (*Report, error)
	forget   []string
}

var verbCases = map[string]verbCase{
	"init":             {migrate.NoPhase, migrate.Observe, nil, Init, nil},
	"init after clean": {migrate.Clean, migrate.Observe, nil, Init, nil},
	"init after a loss": {migrate.Sealed, migrate.Sealed, func(c *crew) { c.w.Mini.Del(record.Key("")) },
		Init, nil},
	"advance to dual":   {migrate.Observe, migrate.Dual, nil, Advance, nil},
	"advance to sealed": {migrate.Dual, migrate.Sealed, nil, Advance, nil},
	"advance to modern": {migrate.Sealed, migrate.Modern, nil, Advance, nil},
	"advance and forget": {migrate.Dual, migrate.Sealed, func(c *crew) {
		c.registered("away", migrate.Dual, 5)
		c.w.Pass(2 * time.Minute)
	}, Advance, []string{"away"}},
	"back to sealed":      {migrate.Modern, migrate.Sealed, nil, Back, nil},
	"back to dual":        {migrate.Sealed, migrate.Dual, nil, Back, nil},
	"back to observe":     {migrate.Dual, migrate.Observe, nil, Back, nil},
	"clean":               {migrate.Modern, migrate.Clean, nil, CleanUp, nil},
	"tombstones of back":  {migrate.Sealed, migrate.Dual, halfway(Back), Back, nil},
	"tombstones of clean": {migrate.Modern, migrate.Clean, halfway(CleanUp), CleanUp, nil},
	"leases of init": {migrate.Clean, migrate.Observe, func(c *crew) {
		c.halfway(Init)
		c.w.Mini.Del("till")
	}, Init, nil},
}

// fault is a column: rule, meanwhile or late.
type fault struct {
	command string // at which it may happen; empty: at each
	// rule is what becomes of that command.
	rule *redistest.Action
	// meanwhile happens while the message waits in front of the server, or when
	// the verb is over if it sends fewer messages.
	meanwhile func(c *crew, promote func())
	// cut: connections end with it.
	cut bool
	// says is what the verb's error must say.
	says string
	// late: the replica of that moment is promoted when the verb is over.
	late bool
	// kills: the process dies there, so nothing that it would send later comes.
	kills bool
	// arrives: that message arrives after the verb was run again.
	arrives bool
}

var verbFaults = map[string]fault{
	"cut before the reply":   {rule: &redistest.CutAfter},
	"cut before a script":    {command: "EVALSHA", rule: &redistest.CutBefore},
	"cut after the reply":    {rule: &redistest.CutReplied},
	"NOSCRIPT":               {command: "EVALSHA", rule: noScript},
	"without a right":        {rule: noRight, says: "the user that migrates needs SCAN, GET"},
	"script cache flushed":   {command: "EVALSHA", meanwhile: func(c *crew, _ func()) { c.w.FlushScripts() }},
	"restarted empty":        {meanwhile: func(c *crew, _ func()) { c.w.Restart() }, cut: true},
	"phase record lost":      {meanwhile: func(c *crew, _ func()) { c.w.Mini.Del(record.Key("")) }},
	"promoted, all lost":     {meanwhile: func(_ *crew, promote func()) { promote() }, cut: true},
	"promoted, the end lost": {late: true},
	"killed":                 {rule: &redistest.CutAfter, kills: true},
	"killed, a script late":  {command: "EVALSHA", kills: true, arrives: true},
}

var noScript, noRight = answer(redistest.NoScript), answer(redistest.NoPerm)

func answer(err string) *redistest.Action {
	a := redistest.Answer(err)
	return &a
}

func TestCutAnywhereEveryVerbCanBeRunAgain(t *testing.T) {
	for verb, v := range verbCases {
		for name, f := range verbFaults {
			t.Run(verb+"/"+name, func(t *testing.T) {
				t.Parallel()
				// The first round suffers nothing, and counts.
				for nth, last := 0, 0; nth <= last+1 && !t.Failed(); {
					inBubble(t, func(fl *fleet) {
						sent := newCrew(fl, v).suffers(v, f, nth)
						if nth == 0 {
							last = sent
						}
					})
					if t.Failed() {
						t.Fatalf("at command %d of %d", nth, last)
					}
					if nth++; raced.On && nth > 1 {
						nth += 7 // without the race detector, in `make test`,, it happens at each
					}
				}
			})
		}
	}
}

// crew is a fleet of two members, whose heartbeats do not fall together.
type crew struct {
	*fleet
	all []*migrate.Member
}

const crewEvery = time.Second

func newCrew(f *fleet, v verbCase) *crew {
	f.t.Helper()
	c := &crew{fleet: f}
	if v.from != migrate.NoPhase {
		known := migrate.Known{Time: time.Minute, Source: migrate.Claimed}
		second := migrate.Known{Time: time.Second, Source: migrate.Claimed}
		c.recorded(migrate.Record{
			Epoch: 5, Phase: v.from, Since: f.w.ServerNow(), Dialect: "Jedis",
			Fleet: migrate.Fleet{Lease: known, Greatest: known, Spread: second, Gap: second, Job: second},
		})
	}
	for range 2 {
		c.all = append(c.all, f.join(migrate.MemberConfig{Every: crewEvery}))
		f.w.Pass(crewEvery / 2)
	}
	if tombstones(v.from) {
		f.put("stock", nil)
	}
	c.beats()
	if v.ready != nil {
		v.ready(c)
	}
	return c
}

func (c *crew) beats() { c.w.Pass(2*crewEvery + crewEvery/2) }

// tombstones says whether they belong to a phase.
func tombstones(p migrate.Phase) bool { return p == migrate.Sealed || p == migrate.Modern }

// halfway takes the step while a lease keeps a tombstone from going, and lets
// that lease end.
func halfway(run func(context.Context, *redis.Pool, Options) (*Report, error)) func(*crew) {
	return func(c *crew) { c.halfway(run) }
}

func (c *crew) halfway(run func(context.Context, *redis.Pool, Options) (*Report, error)) {
	c.t.Helper()
	c.put("till", c.all[0])
	end := c.begin(c.all[0], 10*time.Second)
	c.beats()
	if r, err := run(bg, c.w.Pool(), c.options(Options{Go: true, Wait: 5 * time.Second})); err != nil ||
		!r.Moved || r.Over {
		c.t.Fatalf("%v: %+v", err, r)
	}
	end()
	c.w.Mini.Del("{till}:gsl")
	c.beats()
}

// blow is a fault that waits for its command.
type blow struct {
	sent    int  // commands at which it might have happened
	logs    bool // it happened to the log
	promote func()
	script  *redistest.Gate // of what arrives later
	settle  func()          // waits until it has happened, or the verb ended without it
}

// strikes lets the fault happen at the nth command on the wire.
func (c *crew) strikes(wire *redistest.Wire, f fault, nth int) *blow {
	b := &blow{promote: c.w.Replica(), script: redistest.NewGate()}
	rule := redistest.Rule{Nth: nth, When: func(cmd redistest.Command) bool {
		may := f.command == "" && !cmd.Is("GETRANGE") && !cmd.Is("PTTL") && !cmd.Is("INFO") ||
			cmd.Is(f.command)
		if may {
			b.sent++
			b.logs = b.logs || b.sent == nth && (cmd.Is("RPUSH") || cmd.Is("LTRIM"))
		}
		return may
	}}
	if nth == 0 {
		rule.Nth = 1 << 30
	}
	ended, happened := make(chan struct{}), make(chan struct{})
	b.settle = func() { close(ended); <-happened }
	switch {
	case f.rule != nil:
		rule.Do = *f.rule
		close(happened)
	case f.arrives:
		rule.Do = redistest.HoldRequest(b.script)
		close(happened)
	default:
		gate := redistest.NewGate()
		rule.Do = redistest.HoldRequest(gate)
		go func() {
			defer close(happened)
			select {
			case <-gate.Reached():
			case <-ended:
			}
			switch {
			case nth == 0:
			case f.late:
				b.promote = c.w.Replica()
			default:
				f.meanwhile(c, b.promote)
			}
			if f.cut {
				wire.Cut()
			}
			gate.Open()
		}()
	}
	wire.Fault(rule)
	if f.kills && nth > 0 {
		dead := func(redistest.Command) bool { return b.sent >= nth }
		wire.Fault(redistest.Rule{When: dead, Times: -1, Do: redistest.CutBefore},
			redistest.Rule{Command: redistest.Dialing, When: dead, Times: -1, Do: redistest.Refuse})
	}
	return b
}

// suffers runs the verb, lets the fault happen at the nth command, and sees to
// it that all ends well. It returns how many commands the verb sent at which it
// might have happened.
func (c *crew) suffers(v verbCase, f fault, nth int) int {
	c.t.Helper()
	c.w.ServerNow()
	wire, held := c.w.Wire(), func() {}
	blow := c.strikes(wire, f, nth)
	if f.kills && nth > 0 {
		held = c.holds()
	}
	r, first := v.run(bg, wire.Pool(), c.options(Options{Go: true, Wait: 5 * time.Second, Forget: v.forget}))
	blow.settle()
	held()
	switch {
	case f.says == "" || nth == 0 || nth > blow.sent:
	case blow.logs: // the step is taken, whether or not the log could be written
		if first != nil {
			c.t.Errorf("a log that cannot be written fails the verb: %v", first)
		}
	default:
		says(c.t, first, f.says)
	}
	if first == nil && (f.rule != nil || nth == 0) {
		c.stands(r)
	}
	c.neverHalf(v, first)
	if f.late && nth > 0 {
		blow.promote()
		c.neverHalf(v, first)
	}
	c.comesTo(v, first)
	if f.arrives && nth > 0 && !c.t.Failed() {
		held := c.holds()
		before, _ := c.w.Mini.Get(record.Key(""))
		blow.script.Open()
		c.beats()
		held()
		c.beats()
		if after, _ := c.w.Mini.Get(record.Key("")); after != before {
			c.t.Errorf("the late script made %q of %q", after, before)
		}
		c.leftBehind(v)
	}
	return blow.sent
}

// holds lets a member hold a lock until the returned function is called. It
// must not lose it.
func (c *crew) holds() (end func()) {
	c.t.Helper()
	if p := c.all[0].State().Phase; p == migrate.NoPhase {
		return func() {}
	}
	b, err := migrate.New(c.w.Pool(), migrate.Config{Phases: c.all[0], Clock: c.w.Clock(redistest.Skew{})})
	if err != nil {
		c.t.Fatal(err)
	}
	g, err := b.Contract().Try(bg, "held", leaseOfOurs)
	if err != nil {
		c.t.Fatal(err)
	}
	return func() {
		defer b.Close()
		if _, err := g.Extend(bg, leaseOfOurs); err != nil {
			c.t.Errorf("the lock that was held meanwhile: %v", err)
		}
		if err := g.Release(bg); err != nil {
			c.t.Error(err)
		}
		c.w.Mini.Del("held") // its tombstone, which no rule asks for
	}
}

// stands fails unless the record is as the verb reported.
func (c *crew) stands(said *Report) {
	c.t.Helper()
	text, _ := c.w.Mini.Get(record.Key(""))
	r, _ := migrate.ParseRecord(text)
	if r.Phase != said.Phase || r.Epoch != said.Epoch || r.Pending != said.Pending {
		c.t.Errorf("it said phase %v, epoch %d, pending %v, and the record says %q", said.Phase, said.Epoch,
			said.Pending, text)
	}
}

// neverHalf looks at the record, and at how far the members are apart.
func (c *crew) neverHalf(v verbCase, first error) {
	c.t.Helper()
	if text, _ := c.w.Mini.Get(record.Key("")); text != "" {
		r, err := migrate.ParseRecord(text)
		// No member acts by a record older than what every member has seen.
		if err != nil || r.Phase != v.from && r.Phase != v.to && r.Epoch >= 5 {
			c.t.Errorf("after %v the record says %q (%v)", first, text, err)
		}
	}
	for _, m := range c.all {
		if p := m.State().Phase; p != v.from && p != v.to {
			c.t.Errorf("after %v a member acts by %v", first, p)
		}
	}
}

// comesTo is what the operator does. It waits for the members' heartbeats,
// writes a lost record anew, deletes one that is older than what members have
// seen, and runs the verb until that says it is over.
func (c *crew) comesTo(v verbCase, first error) {
	c.t.Helper()
	o := c.options(Options{Go: true, Wait: 20 * time.Second, Forget: v.forget})
	var said []string
	for range 8 {
		c.beats()
		c.neverHalf(v, first)
		text, _ := c.w.Mini.Get(record.Key(""))
		run := v.run
		if text == "" {
			run = Init
		} else if r, _ := migrate.ParseRecord(text); r.Phase == v.to && r.Pending == migrate.NoPhase &&
			c.followed(r) {
			c.leftBehind(v)
			return
		}
		for _, run := range []func(context.Context, *redis.Pool, Options) (*Report, error){Status, run} {
			r, err := run(bg, c.w.Pool(), o)
			if err != nil {
				c.t.Fatal(err)
			}
			said = append(said, fmt.Sprintf("%v, closed by %q, notes %q", r.Phase, rules(r.Gate), r.Notes))
			if slices.Contains(rules(r.Gate), "lost") && !c.closedByLoss(r) {
				return
			}
			if slices.Contains(rules(r.Gate), "epoch") {
				c.w.Mini.Del(record.Key(""))
				break
			}
		}
	}
	c.t.Errorf("after %v it is never over:\n%s", first, strings.Join(said, "\n"))
}

// closedByLoss lets the time go by for which leases may run that nobody knows
// of, and fails if the gate does not say how long that is.
func (c *crew) closedByLoss(r *Report) bool {
	if r.Gate.Wait <= 0 || r.Gate.Wait > 3*time.Minute {
		c.t.Errorf("closed for %v by %v", r.Gate.Wait, r.Gate.Blocks)
		return false
	}
	c.w.Pass(r.Gate.Wait + time.Second)
	return true
}

// followed says whether every member acts by the record.
func (c *crew) followed(r migrate.Record) bool {
	return !slices.ContainsFunc(c.all, func(m *migrate.Member) bool {
		s := m.State()
		return s.Phase != r.Phase || s.Epoch != r.Epoch
	})
}

func (c *crew) leftBehind(v verbCase) {
	c.t.Helper()
	allowed := []string{record.Key(""), record.RosterKey(""), record.LogKey("")}
	if tombstones(v.to) {
		allowed = append(allowed, "stock")
	}
	if v.to == migrate.Clean {
		allowed = append(allowed, "stock", "till") // for what is left of their TTL; the second by halfway
	}
	for _, key := range c.w.Mini.Keys() {
		if !slices.Contains(allowed, key) && !c.endsByItself(key) {
			c.t.Errorf("%s is left behind", key)
		}
	}
}
