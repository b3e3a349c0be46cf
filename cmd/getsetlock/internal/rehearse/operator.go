// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	migfleet "github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

const (
	stages = 14 // batches of orders in a migration

	// day is the virtual time of a whole migration. Stages are worked through
	// without a pause; between stages no program has anything to do.
	day = 24 * time.Hour

	// underWay is the time from letting orders through to the operator's next
	// act. If both fell on one instant, the scheduler would choose whether a
	// program that is asked to end begins another order first.
	underWay = 1370 * time.Microsecond

	between   = 700 * time.Millisecond // between programs that are restarted or replaced
	looksAt   = 5 * time.Second        // between a watcher's looks
	asksAgain = 7 * time.Second        // after a refusal, unless a lease is shorter
	patiently = time.Hour
)

// run takes the fleet from old clients to token locks, as a careful operator
// would who meets the usual accidents.
func (m *moves) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- m.watch(watching) }()
	err := m.f.kind.walk(m, ctx)
	stop()
	err = errors.Join(err, <-watched)    // a watcher that failed keeps gates closed, and its error says why
	m.f.tasks.let(m.f.plan.Acquisitions) // the rest, or every program would wait for ever
	m.pool.Close()
	return err
}

// act is something that the operator does.
type act = func(ctx context.Context) error

func (m *moves) road(ctx context.Context) error {
	return inOrder(ctx,
		m.stage(m.begin),
		m.stage(m.staff(1, 0.5), m.crash(1), m.crash(0)),
		m.refused("dual", migfleet.Claims{}, "gap"), // nobody can measure the gap, and nobody has claimed it
		m.forward(migrate.Dual),
		m.stage(m.restart(1), m.overrun, m.crash(1), m.crash(0)),
		m.back(migrate.Observe),
		m.stage(m.restart(1)),
		m.forward(migrate.Dual),
		// Asked while an old client works.
		m.stage(m.staff(1, 1-1/float64(m.f.plan.Clients)), m.refused("sealed", m.claims, "old-clients")),
		m.stage(m.staff(1, 1), m.crash(1)),
		m.lapse,
		m.forward(migrate.Sealed),
		m.stage(m.crash(1)), // leaves tombstones
		m.oldComes,
		m.stage(m.restart(1)), // the old client waits and gives up
		m.back(migrate.Dual),
		m.oldComes,
		m.stage(m.restart(1)), // now the old client can work
		m.stage(m.staff(1, 1)),
		m.lapse,
		m.forward(migrate.Sealed),
		m.stage(m.crash(1)),
		m.forward(migrate.Modern),
		m.stage(m.restart(1), m.crash(1)),
		m.step(migrate.Clean, migfleet.CleanUp),
		m.stage(m.crash(1), m.staff(2, 0.5)), // plain programs know of no phase, and need not any more
		m.stage(m.crash(2), m.staff(2, 1)),
	)
}

// inOrder does one thing after the other, until one fails.
func inOrder(ctx context.Context, acts ...act) error {
	for _, do := range acts {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stage lets a batch of orders through: a part before each act, and the last
// part after them. Then it waits until all orders are done, and lets the fleet
// rest.
func (m *moves) stage(acts ...act) act {
	return func(ctx context.Context) error {
		before, had := m.ours()
		batch := m.f.plan.Acquisitions / stages
		part := batch / (len(acts) + 1)
		for _, do := range acts {
			m.f.tasks.let(part)
			if err := pause(ctx, underWay); err != nil {
				return err
			}
			if err := do(ctx); err != nil {
				return err
			}
		}
		m.f.tasks.let(batch - len(acts)*part)
		if err := m.f.tasks.drained(ctx); err != nil {
			return err
		}
		commands, acquired := m.ours()
		m.mu.Lock()
		v := &m.visits[len(m.visits)-1]
		v.commands += commands - before
		v.acquired += acquired - had
		m.mu.Unlock()
		return pause(ctx, m.rest())
	}
}

// ours returns what the new clients have done so far, both members and plain
// programs.
func (m *moves) ours() (commands int64, acquired int) {
	m.f.book.mu.Lock()
	defer m.f.book.mu.Unlock()
	for group := 1; group < len(m.f.teams); group++ {
		commands += m.f.teams[group].commands.Load()
		acquired += m.f.teams[group].Acquisitions
	}
	return commands, acquired
}

func (m *moves) rest() time.Duration {
	if m.f.plan.Rest > 0 {
		return m.f.plan.Rest
	}
	return day / stages
}

// asksAgain is how long an operator waits after a refusal. Gates wait for
// leases, so it waits no longer than one.
func (m *moves) asksAgain() time.Duration { return min(asksAgain, m.f.rules.lease) }

// begin writes the record.
func (m *moves) begin(ctx context.Context) error {
	r, err := migfleet.Init(ctx, m.pool, m.options())
	if err != nil {
		return err
	}
	if !r.Moved {
		return fmt.Errorf("the migration could not begin: %s", reasons(r))
	}
	m.enter(migrate.Observe)
	return nil
}

func (m *moves) options() migfleet.Options {
	m.mu.Lock()
	defer m.mu.Unlock()
	return migfleet.Options{
		Namespace: m.namespace, Dialect: m.f.plan.spoken(), Claims: m.claims, Go: true,
		Forget: slices.Clone(m.dead), Wait: time.Minute, Timeout: replyWithin,
	}
}

// staff replaces programs by those of a group, until the group has that share
// of all.
func (m *moves) staff(group int, share float64) act {
	return func(ctx context.Context) error {
		want := int(share*float64(m.f.plan.Clients) + 0.5)
		for slot := range m.f.plan.Clients {
			if m.f.count(group) >= want {
				return nil
			}
			if err := m.replace(ctx, slot, group); err != nil {
				return err
			}
		}
		return nil
	}
}

// replace makes the slot's next program one of the group, and asks the running
// program to end.
func (m *moves) replace(ctx context.Context, slot, group int) error {
	if m.f.post(slot) == m.f.teams[group] {
		return nil
	}
	m.f.assign(slot, group)
	return m.end(ctx, slot)
}

func (m *moves) end(ctx context.Context, slot int) error {
	m.f.mu.Lock()
	w := m.f.crew[slot]
	m.f.mu.Unlock()
	if w != nil {
		w.retire()
	}
	return pause(ctx, between)
}

// restart returns a rolling restart of a group.
func (m *moves) restart(group int) act {
	return func(ctx context.Context) error {
		for slot := range m.f.plan.Clients {
			if m.f.post(slot) == m.f.teams[group] {
				if err := m.end(ctx, slot); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// crash lets the next holder of a group die with the key.
func (m *moves) crash(group int) act {
	return func(context.Context) error {
		if m.f.plan.Crashes > 0 {
			m.f.addFate(group, dies)
		}
		return nil
	}
}

// overrun lets the next old holder work for longer than its lease.
func (m *moves) overrun(context.Context) error {
	m.f.addFate(0, overruns)
	return nil
}

// oldComes starts an old client in place of a new one.
func (m *moves) oldComes(ctx context.Context) error {
	if err := m.replace(ctx, 0, 0); err != nil {
		return err
	}
	return pause(ctx, 2*restart) // the old client is up, and the first to ask
}

// verb is a verb of the operator that may take a step.
type verb = func(context.Context, *redis.Pool, migfleet.Options) (*migfleet.Report, error)

// ask asks for a step again and again, until over says that this is over.
func (m *moves) ask(ctx context.Context, take verb, claims migfleet.Claims,
	over func(*migfleet.Report) (bool, error)) error {
	for {
		o := m.options()
		o.Claims = claims
		r, err := take(ctx, m.pool, o)
		if err != nil {
			return err
		}
		if done, err := over(r); done || err != nil {
			return err
		}
		if err := pause(ctx, m.asksAgain()); err != nil {
			return err
		}
	}
}

// refused asks for a step that must not be taken yet. The gate must name the
// given rule at last: right after a step it is closed for other reasons too.
func (m *moves) refused(to string, claims migfleet.Claims, rule string) act {
	return func(ctx context.Context) error {
		began := m.f.now()
		return m.ask(ctx, migfleet.Advance, claims, func(r *migfleet.Report) (bool, error) {
			switch {
			case r.Moved:
				m.trouble("the step to %s was taken, although the gate should have refused it", to)
				m.enter(r.Phase)
			case slices.Contains(rulesOf(r), rule):
				m.note(r, true)
			case m.f.now()-began > 3*m.f.plan.memberEvery():
				n := m.note(r, true)
				m.trouble("the gate to %s was closed, but by %[3]v and not by %[2]s", to, rule, n.Rules)
			default:
				return false, nil
			}
			return true, nil
		})
	}
}

// note records a refusal.
func (m *moves) note(r *migfleet.Report, expected bool) Refusal {
	if r.Gate == nil {
		return Refusal{}
	}
	n := Refusal{To: r.Gate.To.String(), AtMS: millis(m.f.now()), Expected: expected, Rules: rulesOf(r),
		Detail: reasons(r)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals = append(m.refusals, n)
	return n
}

// waited records what the gate of a step waited for, and what opened it.
func (m *moves) waited(r *migfleet.Report, began time.Duration, closed []string) {
	slices.Sort(closed)
	w := Wait{To: r.Phase.String(), FromMS: millis(began), ToMS: millis(m.f.now()),
		Rules: slices.Compact(closed)}
	if r.Gate != nil {
		for _, f := range r.Gate.Evidence {
			switch f.Rule {
			case "member":
				w.Members++
			case "window":
				w.Window = f.Detail
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, w)
}

// rulesOf returns the names of the rules that close a gate, sorted.
func rulesOf(r *migfleet.Report) []string {
	rules := []string{}
	if r.Gate != nil {
		for _, b := range r.Gate.Blocks {
			rules = append(rules, b.Rule)
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// reasons returns the last reason of a gate. Reasons about members come first,
// those about old clients after.
func reasons(r *migfleet.Report) string {
	if r.Gate == nil || len(r.Gate.Blocks) == 0 {
		return "no reason was given"
	}
	return r.Gate.Blocks[len(r.Gate.Blocks)-1].Detail
}

func (m *moves) forward(to migrate.Phase) act { return m.step(to, migfleet.Advance) }
func (m *moves) back(to migrate.Phase) act    { return m.step(to, migfleet.Back) }

// lapse discards what a watcher saw. Until then old clients paused while the
// operator held back the orders, and a gate would wait for a pause of the same
// length again.
func (m *moves) lapse(ctx context.Context) error {
	if !m.f.plan.Watch {
		return nil
	}
	_, err := migfleet.ForgetEvidence(ctx, m.pool, m.options())
	return err
}

// step asks for a step until it is taken and complete. An operator waits for
// what a gate asks; a gate that stays closed for an hour is trouble.
func (m *moves) step(to migrate.Phase, take verb) act {
	return func(ctx context.Context) error {
		began, entered := m.f.now(), false
		var closed []string // rules that closed the gate
		return m.ask(ctx, take, m.claims, func(r *migfleet.Report) (bool, error) {
			switch {
			case r.Phase == to && !entered:
				entered = true
				m.enter(to)
				m.waited(r, began, closed)
			case !entered:
				closed = append(closed, rulesOf(r)...)
			}
			if r.Phase == to && r.Pending == migrate.NoPhase {
				m.forgot(r)
				return true, nil
			}
			if m.f.now()-began > patiently {
				m.note(r, false)
				return true, fmt.Errorf("the gate to %v stays closed: %s", to, reasons(r))
			}
			return false, nil
		})
	}
}

// forgot drops the dead members that are no longer in the registry.
func (m *moves) forgot(r *migfleet.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = slices.DeleteFunc(m.dead, func(id string) bool {
		return !slices.ContainsFunc(r.Members, func(s migrate.MemberState) bool { return s.ID == id })
	})
}

// watch reports to the gates what is seen of old clients.
func (m *moves) watch(ctx context.Context) error {
	if m.f.plan.Watch {
		err := migfleet.WatchClients(ctx, m.pool,
			migfleet.ObserverConfig{Namespace: m.namespace, Dialect: m.f.plan.spoken(), Every: time.Second,
				Monitor: true})
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for pause(ctx, looksAt) == nil {
		now := m.f.now()
		s := migfleet.Sighting{
			Observer: "rehearsal", From: m.f.began, Until: m.f.began.Add(now),
			Window: migfleet.Window{
				Quiet: now - max(0, time.Duration(m.lastOld.Load())), QuietUntil: m.f.began.Add(now)},
		}
		if last := m.lastOld.Load(); last >= 0 {
			key, _ := m.oldKey.Load().(string)
			t := &migfleet.Touch{At: m.f.began.Add(time.Duration(last)), Key: key, What: "attempt",
				Who: "an old program of the rehearsal"}
			s.LastWrite = t
			s.Keys = []migfleet.SightedKey{{Key: key, LastWrite: t}}
		}
		if err := s.Keep(ctx, m.pool, m.namespace); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
