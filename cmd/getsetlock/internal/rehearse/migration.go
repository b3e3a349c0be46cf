// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	migfleet "github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// Phase is one visit to a phase of a migration.
type Phase struct {
	Phase           string  `json:"phase"`            // its name
	FromMS          float64 `json:"from_ms"`          // beginning, in true time since that of the rehearsal
	ToMS            float64 `json:"to_ms"`            // end, likewise
	OldClients      int     `json:"old_clients"`      // number when the phase ended
	Acquisitions    int     `json:"acquisitions"`     // of all clients
	OldAcquisitions int     `json:"old_acquisitions"` // of old clients
	Episodes
	Lost      int      `json:"lost"`        // holders that learned that they had lost the key
	WaitP50MS *float64 `json:"wait_p50_ms"` // half of the waits were no longer
	WaitP99MS *float64 `json:"wait_p99_ms"` // 99 of 100 waits were no longer
	// commands of new clients, with waits, jobs and heartbeats; null if they
	// had no work
	CommandsPerAcquisition *float64 `json:"commands_per_acquisition"`
	// fewest of them that took a free lock and gave it back; null: unknown
	LockCommands *int64 `json:"lock_commands"`
	// how many more than in clean; null: unknown
	ExtraCommands *int64 `json:"extra_commands"`
}

// Refusal is a step that a gate refused.
type Refusal struct {
	To       string   `json:"to"`       // phase to which the step would have led
	AtMS     float64  `json:"at_ms"`    // time since the beginning
	Expected bool     `json:"expected"` // the rehearsal provoked it
	Rules    []string `json:"rules"`    // names of the rules that blocked it, sorted
	Detail   string   `json:"detail"`   // the reasons, for people
}

// Wait is how long the operator asked for a step until its gate opened and the
// fleet had followed.
type Wait struct {
	To           string
	FromMS, ToMS float64
	Rules        []string // names of the rules that closed the gate meanwhile, sorted
	Members      int      // number of members that acted by the phase before
	Window       string   // how long no old client was seen; empty: not asked for
}

// visit records a phase while it lasts.
type visit struct {
	phase    migrate.Phase
	from, to time.Duration
	old      int // number of old clients at its end

	// Counts of the new clients while there was work to do.
	commands int64
	acquired int
}

// moves is the migration of the fleet, and the operator who conducts it.
type moves struct {
	f         *fleet
	namespace string
	pool      *redis.Pool // the operator's pool
	claims    migfleet.Claims

	lastOld atomic.Int64 // true time of the latest attempt of an old client
	oldKey  atomic.Value // key of that attempt, a string

	mu       sync.Mutex
	visits   []visit
	refusals []Refusal
	waits    []Wait
	dead     []string // ids of members that died
	shutOut  int
	now      migrate.Phase
	troubles []string // with the migration itself
}

func newMoves(f *fleet, prefix string) *moves {
	m := &moves{f: f}
	m.namespace = strings.TrimSuffix(prefix, ":")
	t := f.rules
	m.claims = migfleet.Claims{Lease: t.lease, Greatest: t.lease, Spread: t.spread, Gap: t.gap,
		Job: f.plan.Job.Most() + time.Second}
	m.claims.Behind, m.claims.Ahead = t.spread, t.spread // as the new clients know it
	m.claims.Idle = t.lease                              // old clients return at once until stopped
	if f.plan.Watch {
		// A watcher counts a dead holder's key as held until another client
		// takes it over.
		m.claims.Job = 2 * t.lease
	}
	m.pool = &redis.Pool{MaxIdle: 2,
		DialContext: func(ctx context.Context) (redis.Conn, error) { return f.dial(ctx, nobody, 0) }}
	m.lastOld.Store(-1)
	f.tasks.open = 0
	return m
}

// saw records an attempt of an old client, as a watcher of the server's
// commands would see it.
func (m *moves) saw(key string) {
	m.lastOld.Store(int64(m.f.now()))
	m.oldKey.Store(key)
}

func (m *moves) lost(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = append(m.dead, id)
}

// gaveUp records an old client that was shut out. The slot's next program is a
// new client.
func (m *moves) gaveUp(slot int) {
	m.mu.Lock()
	m.shutOut++
	m.mu.Unlock()
	m.f.assign(slot, 1)
}

// isShutOut reports whether no old client can acquire a lock now.
func (w *worker) isShutOut() bool {
	m := w.fleet.moves
	if m == nil || w.team.kind != oldClient {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now >= migrate.Sealed && m.now != migrate.Clean
}

// assign sets the group of a slot's next program.
func (f *fleet) assign(slot, group int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.teams[group]
	f.posts[slot] = t
	t.Clients = max(t.Clients, f.staffOf(t))
}

func (f *fleet) count(group int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.staffOf(f.teams[group])
}

// staffOf counts a group's programs. Called with s.mu held.
func (s *staff) staffOf(t *team) (n int) {
	for _, other := range s.posts {
		if other == t {
			n++
		}
	}
	return n
}

// enter begins a visit.
func (m *moves) enter(p migrate.Phase) {
	now, old := m.f.now(), m.f.count(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = p
	m.leave(now, old)
	m.visits = append(m.visits, visit{phase: p, from: now})
}

// leave ends the current visit. Called with m.mu held.
func (m *moves) leave(now time.Duration, old int) {
	if n := len(m.visits); n > 0 {
		m.visits[n-1].to, m.visits[n-1].old = now, old
	}
}

// report adds the phases to the result, and judges the migration.
func (m *moves) report(res *Result) {
	now, old := m.f.now(), m.f.count(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(now, old)
	for _, v := range m.visits {
		p := m.f.book.during(v)
		if n := m.f.book.broken(v, m.f.plan.memberEvery()+time.Second); v.phase >= migrate.Sealed && n > 0 {
			m.troubles = append(m.troubles,
				fmt.Sprintf("old clients held locks %d times in phase %v although a tombstone should have kept them out", n, v.phase))
		}
		res.Phases = append(res.Phases, p)
	}
	compareLocks(res.Phases)
	if m.shutOut == 0 {
		m.troubles = append(m.troubles, "the forgotten old client did not give up in phase sealed")
	}
	res.Refusals, res.GaveUp, res.Trouble = m.refusals, m.shutOut, m.troubles
	res.Waits = m.waits
	for _, refused := range m.refusals {
		res.OK = res.OK && refused.Expected
	}
	res.OK = res.OK && len(m.troubles) == 0
}

// compareLocks sets how many more commands a lock takes in each phase than in
// clean, where nothing of the migration is left.
func compareLocks(phases []Phase) {
	i := slices.IndexFunc(phases, func(p Phase) bool { return p.Phase == migrate.Clean.String() })
	if i < 0 || phases[i].LockCommands == nil {
		return
	}
	base := *phases[i].LockCommands
	for i := range phases {
		if p := &phases[i]; p.LockCommands != nil {
			p.ExtraCommands = new(*p.LockCommands - base)
		}
	}
}

// during returns what the book has of one visit.
func (b *book) during(v visit) Phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := Phase{Phase: v.phase.String(), FromMS: millis(v.from), ToMS: millis(v.to), OldClients: v.old}
	var waits []time.Duration
	var locks []int64
	for _, sold := range b.products {
		for _, h := range sold.holds {
			if h.start < v.from || h.start >= v.to {
				continue
			}
			p.Acquisitions++
			if h.kind == oldClient {
				p.OldAcquisitions++
			}
			if h.lost {
				p.Lost++
			}
			waits = append(waits, h.waited)
			if h.kind == newClient && h.commands > 0 {
				locks = append(locks, h.commands)
			}
		}
		for _, e := range sold.episodes {
			if e.start >= v.from && e.start < v.to {
				p.count(e)
			}
		}
	}
	p.WaitP50MS, p.WaitP99MS = quantile(waits, 0.50), quantile(waits, 0.99)
	if len(locks) > 0 {
		p.LockCommands = new(slices.Min(locks))
	}
	if v.acquired > 0 {
		p.CommandsPerAcquisition = new(math.Round(10*float64(v.commands)/float64(v.acquired)) / 10)
	}
	return p
}

// broken counts old clients' holds in a visit that a tombstone should have
// prevented. A new client's release leaves the tombstone; before the first such
// release a product is as in dual. Members follow a step within the time
// follow, with their next heartbeat, and a lease acquired before leaves no
// tombstone.
func (b *book) broken(v visit, follow time.Duration) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, sold := range b.products {
		sealed := false
		for _, h := range sold.holds { // in the order in which they began
			if h.start < v.from || h.start >= v.to {
				continue
			}
			if h.kind == oldClient && sealed {
				n++
			}
			sealed = sealed || h.kind == newClient && h.freed > h.stop && h.start > v.from+follow
		}
	}
	return n
}

// trouble records that the migration itself did not go as it should.
func (m *moves) trouble(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles = append(m.troubles, fmt.Sprintf(format, args...))
}
