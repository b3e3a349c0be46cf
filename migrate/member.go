// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// MemberConfig says which program joins. Zero is right for every field, except
// Dialect where the old clients do not write as jedis-lock does.
type MemberConfig struct {
	// Namespace is what the program's keys begin with. Defaults to the empty
	// text, which all keys begin with.
	Namespace string

	// Name is the program's name for people, at most 200 bytes. The member's id
	// is random.
	Name string

	// Host is the machine's name for people, at most 200 bytes. Defaults to its
	// host name.
	Host string

	// Dialect names what the old clients write, as the bridge's dialect does.
	// Defaults to "Jedis".
	Dialect string

	// Target is set where the program composes its locks with another store by
	// [Compose]: a name for that store, at most 200 bytes. Programs that give
	// the same name have to mean the same cluster, and the same part of it (the
	// chroot in ZooKeeper). The step to clean needs the same name of all
	// members. Once it is set, no lock is taken by a Bridge alone.
	Target string

	// Every is the time between two heartbeats, by Clock, and so the longest
	// time until a change of phase is noticed. Defaults to 5 s. In a fleet of
	// more than 100 members it defaults to 50 ms for each member, up to a
	// minute.
	Every time.Duration

	// Renews is how long leases are renewed after the last answered heartbeat,
	// but at least three periods. The operator may forget a dead member when
	// that time and the longest TTL have passed after its last heartbeat. A set
	// value may be at most a minute. Defaults to a minute, or to three periods
	// if that is longer.
	Renews time.Duration

	// Timeout is the longest wait for each reply, in real time. Defaults to
	// 2 s.
	Timeout time.Duration

	// Clock paces the heartbeats. The server's clock dates them. Defaults to
	// [lock.Machine].
	Clock lock.Clock
}

const longestName = 200

func (cfg MemberConfig) complete() (MemberConfig, error) {
	if cfg.Dialect == "" {
		cfg.Dialect = "Jedis"
	}
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // for people alone
		cfg.Host = strings.ToValidUTF8(cfg.Host[:min(len(cfg.Host), longestName)], "")
	}
	switch {
	case cfg.Every != 0 && (cfg.Every < 10*time.Millisecond || cfg.Every > time.Hour):
		return cfg, fmt.Errorf("migrate: MemberConfig.Every is %v; it must be between 10ms and 1h", cfg.Every)
	case cfg.Renews < 0 || cfg.Renews > record.LeastRenewals:
		return cfg, fmt.Errorf("migrate: MemberConfig.Renews is %v; it must be at most %v", cfg.Renews,
			record.LeastRenewals)
	case len(cfg.Name) > longestName || !utf8.ValidString(cfg.Name):
		return cfg, fmt.Errorf("migrate: MemberConfig.Name has %d bytes; at most %d of UTF-8 are allowed",
			len(cfg.Name), longestName)
	case len(cfg.Host) > longestName || !utf8.ValidString(cfg.Host):
		return cfg, fmt.Errorf("migrate: MemberConfig.Host has %d bytes; at most %d of UTF-8 are allowed",
			len(cfg.Host), longestName)
	}
	if err := cfg.checkTarget(); err != nil {
		return cfg, err
	}
	return cfg, record.CheckNamespace(cfg.Namespace)
}

// Member is a program that is registered in a namespace: its field in the
// roster says by which phase it acts. It is a source of the phase for a Bridge,
// and keeps account of the leases that are taken by it, so that no gate opens
// while a lease of an older phase runs.
//
// While the server does not answer, the member acts by the phase that it read
// last. It makes attempts until three heartbeats in a row are unanswered. It
// renews leases for as long as [MemberConfig].Renews says. After its leases
// have ended the operator may forget it. A record with a smaller epoch, as
// after a flush or a restore, does not change its phase.
//
// A member that was silent for longer than it renews leases may have been
// forgotten. It takes no lock before it has read a record, and an attempt that
// began before the silence gets no lock.
type Member struct {
	cfg   MemberConfig
	clock clocks.Clock
	mux   *wire.Mux
	id    string

	stop context.CancelFunc // ends the heartbeats
	done chan struct{}      // closed when they have ended

	round  turn // held for a round: a heartbeat, and the reading of the record after it
	rounds      // guarded by round

	mu      sync.Mutex  // guards the fields below
	ended   bool        // Goodbye or GoodbyeAfter was called
	contact             // with the server
	state   MemberState // what the next heartbeat says, except Seen and Leases
	leases  leases
	why     error        // why there is no phase
	bridged              // what the attached bridges said
	seen    dialect.Seen // what watchers saw of old clients' clocks, by the record
	sight   *sight       // how it sees the target; nil before Compose
	blind   error        // why it did not see the target in the last round
}

// rounds is what a member's rounds need of each other.
type rounds struct {
	pace  pace
	said  saying  // what this round has said
	old   bool    // the server lets no script write that has called TIME
	folds folding // how far it has searched the roster for members gone for long
}

// contact is what a member knows of its place in the roster.
type contact struct {
	told   time.Duration // longest lease that the server knows of
	heard  clocks.Moment // beginning of the last round in which the server answered heartbeat and record
	lives  int64         // rounds after a silence in which the member may have been forgotten
	lapsed bool          // it was silent for so long, and has followed no record since
}

// bridged is what the bridges of a member said.
type bridged struct {
	// tries the bridge's scripts on a key; nil without a bridge
	probe  func(context.Context, string) error
	probed int64         // epoch of the probe's last run; -1: not run since it was attached
	judge  bounded       // how the bridge judges clocks; nil without a bridge
	first  time.Duration // longest lease of every bridge before phase modern; 0 without one
}

// Join registers a program on the server that pool dials, and reads the phase.
// If there is no record yet, the member is registered all the same, and takes
// no lock until there is one. The member keeps a connection and a goroutine of
// its own until Goodbye, GoodbyeAfter or Leave.
func Join(ctx context.Context, pool *redis.Pool, cfg MemberConfig) (*Member, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout})
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	m := newMember(cfg, mux, record.NewID())
	if err := m.refresh(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: joining namespace %q: %w", cfg.Namespace, err),
			mux.Close())
	}
	beating, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.beat(beating)
	return m, nil
}

func newMember(cfg MemberConfig, mux *wire.Mux, id string) *Member {
	m := &Member{
		round: make(turn, 1),
		cfg:   cfg, clock: clocks.New(cfg.Clock), mux: mux, id: id, done: make(chan struct{}),
		leases: leases{}, bridged: bridged{probed: -1},
	}
	m.pace = newPace(cfg.Every)
	m.state = MemberState{ID: m.id, Name: cfg.Name, Host: cfg.Host, Dialect: cfg.Dialect, Target: cfg.Target,
		Every: m.pace.next, Renews: m.renewsFor(m.pace.next)}
	m.why = m.noRecord()
	return m
}

// renewsFor is how long leases are renewed without an answer, for a time
// between heartbeats.
func (m *Member) renewsFor(every time.Duration) time.Duration {
	if m.cfg.Renews > 0 {
		return max(m.cfg.Renews, record.BeatsMissed*every)
	}
	return record.RenewalsFor(every)
}

// ID is the member's id, in the roster and alongside its tokens.
func (m *Member) ID() string { return m.id }

// Attach takes the probe of a bridge, which tries the bridge's scripts on a
// key. The probe runs with the next heartbeat, and again after each step.
func (m *Member) Attach(probe func(ctx context.Context, key string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe, m.probed = probe, -1
}

// Phase returns the phase to act by. A member that missed more than a few
// heartbeats, as after its machine was suspended, asks the server first. If the
// server does not answer, the last known phase still holds.
func (m *Member) Phase(ctx context.Context) (Phase, error) {
	_ = m.catchUp(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return NoPhase, m.saidGoodbye()
	}
	return m.state.Phase, m.noPhase()
}

// current is the phase that was read last.
func (m *Member) current() Phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Phase
}

// Begin is Phase for an attempt with leases of ttl, and counts the attempt
// until end is called. Before the first lease, and before a longer one, it
// tells the server. It refuses after Goodbye. It also refuses while three or
// more heartbeats in a row are unanswered, since a gate may then take the
// member for dead.
func (m *Member) Begin(ctx context.Context, ttl time.Duration) (p Phase, end func(), err error) {
	h, err := m.begin(ctx, ttl)
	if err != nil {
		return NoPhase, func() {}, err
	}
	return h.phase, h.end, nil
}

// hold is a counted attempt.
type hold struct {
	phase Phase
	epoch int64
	life  int64 // silences of the member before it
	end   func()
}

// begin is Begin, and returns what else an attempt has to know.
func (m *Member) begin(ctx context.Context, ttl time.Duration) (hold, error) {
	m.asks(ttl)
	late := m.catchUp(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mayTake(ttl, late); err != nil {
		return hold{}, err
	}
	p := m.state.Phase
	m.leases.begin(p)
	return hold{p, m.state.Epoch, m.lives, sync.OnceFunc(func() { m.end(p) })}, nil
}

// Covers reports that the program may take a lock: its key begins with the
// namespace. All keys begin with the empty namespace. The key is the program's
// own, before any encoding by a dialect.
func (m *Member) Covers(key string) bool { return scope.Within(m.cfg.Namespace, key) }

// epoch is the epoch of the record that the member acts by.
func (m *Member) epoch() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Epoch
}

// asks notes that leases of ttl will be asked for, which the next round tells
// the server.
func (m *Member) asks(ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.TTL = max(m.state.TTL, ttl)
}

// mayTake returns why no lease of ttl may be taken now; nil: it may. late is
// the error of the last round. The caller holds m.mu.
func (m *Member) mayTake(ttl time.Duration, late error) error {
	if m.ended {
		return m.saidGoodbye()
	}
	if err := m.noPhase(); err != nil {
		return err
	}
	if since := m.clock.Since(m.heard); since > record.BeatsMissed*m.state.Every {
		return &unheardError{since, "takes no lock", late}
	}
	if ttl > m.told {
		return &unheardError{0, fmt.Sprintf("takes no lease of %v before the server knows of it", ttl), late}
	}
	return nil
}

// keeps returns why no lease may be renewed for ttl now; nil: it may. A member
// that was silent for long may be forgotten: by then the leases that it renewed
// have to have ended, so it renews none any more. A lease longer than the
// server knows of is told to the server first.
func (m *Member) keeps(ctx context.Context, ttl time.Duration) error {
	err := m.mayKeep(ttl, nil)
	if err == nil {
		return nil
	}
	m.asks(ttl)
	late := m.catchUp(ctx) // a wall clock that stepped looks like a long silence
	return m.mayKeep(ttl, late)
}

// mayKeep is keeps by what the member knows. late is the error of the last
// round.
func (m *Member) mayKeep(ttl time.Duration, late error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := m.clock.Since(m.heard); since > m.state.Renews {
		return &unheardError{since, "renews no lease", late}
	}
	if ttl > m.told {
		return &unheardError{0, fmt.Sprintf("renews no lease for %v before the server knows of it", ttl),
			late}
	}
	return nil
}

// unheardError is the error of a member whose heartbeats are unanswered, or
// that first has to tell the server something or to read the record. The next
// attempt may succeed.
type unheardError struct {
	since time.Duration // time since the last answer; 0 where that is not the reason
	stops string        // what the member does not do
	err   error
}

func (e *unheardError) Error() string {
	text := "migrate: the member " + e.stops
	if e.since > 0 {
		text += fmt.Sprintf(": the server answered no heartbeat for %v", e.since.Round(time.Millisecond))
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *unheardError) Unwrap() error { return e.err }

// Passing says that the next attempt may succeed.
func (e *unheardError) Passing() bool { return true }

// errEnded says that Goodbye was called, so that the member takes no lock.
var errEnded = errors.New("it has said goodbye; join again to take locks")

func (m *Member) saidGoodbye() error {
	return fmt.Errorf("%w: member %s: %w", ErrNoPhase, m.id, errEnded)
}

// end counts out an attempt, or the lease that it got, by the phase in which it
// began.
func (m *Member) end(p Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases.end(p)
}

// noPhase returns why the member takes no lock in any phase; nil: it may. The
// caller holds m.mu.
func (m *Member) noPhase() error {
	switch {
	case m.state.Phase == NoPhase:
		return fmt.Errorf("%w: %w", ErrNoPhase, m.why)
	case m.lapsed && m.why != nil:
		return fmt.Errorf("%w: the server answered no heartbeat for so long that the operator may have forgotten member %s, and others may act by any phase: %w",
			ErrNoPhase, m.id, m.why)
	}
	return nil
}

// life counts the silences in which the member may have been forgotten. An
// attempt that began before such a silence gets no lock, since members may act
// by any phase after it.
func (m *Member) life() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives
}

func (m *Member) noRecord() error { return record.Missing(m.cfg.Namespace) }

// catchUp makes a round if heartbeats are overdue, the phase is unknown, or
// longer leases are asked for than the server knows of. If that fails, what was
// known still holds.
func (m *Member) catchUp(ctx context.Context) error {
	if !m.behind() {
		return nil
	}
	if err := m.round.take(ctx); err != nil {
		return err
	}
	defer m.round.give()
	if !m.behind() { // another caller's round did it
		return nil
	}
	return m.roundOnce(ctx)
}

// behind reports whether catchUp has to make a round.
func (m *Member) behind() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.ended && (m.overdue() || m.state.TTL > m.told)
}

// overdue reports whether the member has no phase, or heartbeats failed. Then
// what the member knows may be old, and gates may take it for dead. The caller
// holds m.mu.
func (m *Member) overdue() bool {
	return m.noPhase() != nil || m.clock.Since(m.heard) > record.BeatsMissed*m.state.Every
}

// Refresh sends a heartbeat and reads the record now.
func (m *Member) Refresh(ctx context.Context) error {
	if m.over() {
		return m.saidGoodbye()
	}
	if err := m.refresh(ctx); err != nil {
		return fmt.Errorf("migrate: member %s: %w", m.id, err)
	}
	return nil
}

// actsBy takes how a bridge judges old clients' clocks, and its longest lease
// before phase modern. Of the judges the last one counts.
func (m *Member) actsBy(judge bounded, first time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.judge, m.first = judge, max(m.first, first)
}

// saw is what watchers saw of old clients' clocks, by the record that the
// member acts by.
func (m *Member) saw() dialect.Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// State is what the member would say now.
func (m *Member) State() MemberState {
	m.mu.Lock()
	s, judge, seen := m.snapshot(), m.judge, m.seen
	m.mu.Unlock()
	if judge != nil {
		judge.Told(seen)
		s.Behind, s.Ahead = judge.Bounds()
	}
	return s
}

// snapshot returns the state with the present numbers of leases. The caller
// holds m.mu.
func (m *Member) snapshot() MemberState {
	s := m.state
	s.Leases = m.leases.count()
	if s.First = s.TTL; m.first > 0 {
		s.First = min(s.TTL, m.first)
	}
	if m.lapsed { // nobody may take its phase for that of the fleet
		s.Phase = NoPhase
	}
	return s
}
