package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// ObserverConfig says what to watch. Zero is right for every field.
type ObserverConfig struct {
	// Namespace owns the keys that begin with it.
	Namespace string

	// DB is the number of the database that the pool selects; attempts in
	// others are not this fleet's. Defaults to what the server says of the
	// pool's connections.
	DB int

	// Name tells people who watches. Defaults to a drawn one.
	Name string

	// Dialect is what the old clients write. Defaults to [dialect.Jedis].
	Dialect dialect.Dialect

	// Lease and Greatest are the smallest and the greatest lease of the old clients,
	// and Gap the longest time that an attempt of theirs takes, in the form of
	// [dialect.Terms]. What is not given is taken from what the record has as claimed.
	// Without a lease, leases are guessed and nothing is measured of clocks; without a
	// gap nothing bounds a clock from above, nor the spread.
	Lease, Greatest, Gap time.Duration

	// LeaseChecked and OwnConnections are claims, as in [census.Config].
	LeaseChecked, OwnConnections bool

	// Idle is the longest pause between two attempts of one old client. What is
	// found of their clocks counts as measured after a window of that length, and
	// never without it.
	Idle time.Duration

	// Monitor watches every command, without a break. It costs the server much of its
	// throughput, and is for dialects and servers of which counts of SETNX and GETSET prove nothing.
	Monitor bool

	// Every is how far the writes to the server are apart. Defaults to 5 s.
	Every time.Duration

	// Timeout bounds the wait for each reply, in real time. Defaults to 2 s.
	Timeout time.Duration

	// Clock measures the observer's own time. Defaults to [lock.Machine].
	Clock lock.Clock

	// Seen, if not nil, is called with what was written, and with the whole of what is known.
	Seen func(Sighting, *audit.Result)

	// watch stands in for audit.Watch in tests.
	watch func(context.Context, *redis.Pool, audit.Config) (*audit.Result, error)
}

// WatchClients watches the old clients until ctx ends, and keeps for the gates what it sees, on the server. It may run
// in any program; one is enough. When it ends, or sleeps, or the server's clock steps, a window without
// old clients begins anew: who was not there cannot say. Only the server's own
// counts go on: where a later watch finds them as they were, under the same run
// id, the window by counts goes on too.
func WatchClients(ctx context.Context, pool *redis.Pool, cfg ObserverConfig) error {
	o, err := newObserver(pool, cfg)
	if err != nil {
		return err
	}
	defer o.mux.Close()
	for {
		if err := o.watch(ctx, pool); !errors.Is(err, errCarved) {
			return err
		}
	}
}

// errCarved ends a watch of a namespace with other keys than it had when the
// watch began.
var errCarved = errors.New("migrate: keys were carved out of the namespace, or given back to it")

// watch watches the keys that the namespace has now, until ctx ends or that is
// over.
func (o *observer) watch(ctx context.Context, pool *redis.Pool) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	results := make(chan *audit.Result, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		// A result that nobody has read yet is older news than the next.
		_, err := o.cfg.watch(watching, pool, o.auditConfig(func(r *audit.Result) {
			select {
			case <-results:
			default:
			}
			results <- r
		}))
		done <- err
	}()
	for {
		select {
		case r := <-results:
			if err := o.keep(ctx, r); err != nil && ctx.Err() == nil {
				stop()
				<-done
				return err
			}
		case err := <-done:
			return err
		}
	}
}

// writeEvery is how far an observer's writes are apart where nobody says so.
const writeEvery = 5 * time.Second

type observer struct {
	cfg    ObserverConfig
	mux    *wire.Mux
	before Sighting // of other watchers, earlier ones too
	wrote  string   // last text written; other bytes are another watcher's
	except []string // namespaces whose keys are not watched

	machine look.Machine
	counted *counted // where the last watch ended
	began   counted  // the moment at which this one begins; without a run id it is unknown
}

func newObserver(pool *redis.Pool, cfg ObserverConfig) (*observer, error) {
	if cfg.Every == 0 {
		cfg.Every = writeEvery
	}
	if cfg.Name == "" {
		cfg.Name = record.NewID()
	}
	if cfg.Dialect == (dialect.Dialect{}) {
		cfg.Dialect = dialect.Jedis()
	}
	if cfg.watch == nil {
		cfg.watch = audit.Watch
	}
	if cfg.Every < 0 || cfg.Every > watchFresh/2 {
		return nil, fmt.Errorf("migrate: ObserverConfig.Every is %v; it must be positive and at most %v, or gates take it for gone", cfg.Every, watchFresh/2)
	}
	if cfg.DB < 0 {
		return nil, fmt.Errorf("migrate: ObserverConfig.DB is %d; it must be at least 0", cfg.DB)
	}
	if err := record.CheckNamespace(cfg.Namespace); err != nil {
		return nil, err
	}
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout})
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return &observer{cfg: cfg, mux: mux, machine: clocks.New(cfg.Clock).Boot}, nil
}

func (o *observer) auditConfig(seen func(*audit.Result)) audit.Config {
	c := audit.Config{
		Config:    census.Config{Match: scope.Literal(o.cfg.Namespace) + "*", Except: o.except, DB: o.cfg.DB, Dialects: []dialect.Dialect{o.cfg.Dialect}, Idle: o.cfg.Idle},
		Timeout:   o.cfg.Timeout,
		Clock:     o.cfg.Clock,
		Seen:      seen,
		SeenEvery: o.cfg.Every,
	}
	c.Lease, c.Greatest, c.Gap = o.cfg.Lease, o.cfg.Greatest, o.cfg.Gap
	c.LeaseChecked, c.OwnConnections = o.cfg.LeaseChecked, o.cfg.OwnConnections
	if o.cfg.Monitor {
		c.Monitor = audit.MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute}
	}
	return c
}

// carved are the namespaces that were carved out of the one that is watched.
// Without a record, or by one that cannot be read, none was.
func (o *observer) carved(ctx context.Context) ([]string, error) {
	found, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace)))
	if err != nil {
		return nil, fmt.Errorf("migrate: reading %s: %w", record.Key(o.cfg.Namespace), err)
	}
	return found.Except, nil
}

// begin reads what was seen before, and which keys are to be watched.
func (o *observer) begin(ctx context.Context) (err error) {
	if o.except, err = o.carved(ctx); err != nil {
		return err
	}
	text, err := record.TextOf(o.mux.Do(ctx, "GET", record.SeenKey(o.cfg.Namespace)))
	if err != nil {
		return fmt.Errorf("migrate: reading %s: %w", record.SeenKey(o.cfg.Namespace), err)
	}
	if o.before, err = parseSighting(text); err != nil {
		return fmt.Errorf("migrate: %s: %w", record.SeenKey(o.cfg.Namespace), err)
	}
	if o.counted = o.before.Counted; !slices.Equal(o.before.Except, o.except) {
		o.counted = nil // other keys were watched
	}
	if now, ok := o.reading(ctx); ok {
		o.began = now
	}
	stored, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace)))
	if err != nil {
		return fmt.Errorf("migrate: reading %s: %w", record.Key(o.cfg.Namespace), err)
	}
	o.cfg.claimed(stored.Record.Fleet)
	return nil
}

// claimed takes what the record has as claimed where nobody says otherwise. What was
// measured is no claim.
func (c *ObserverConfig) claimed(fl migrate.Fleet) {
	for _, k := range []struct {
		into  *time.Duration
		known migrate.Known
	}{{&c.Lease, fl.Lease}, {&c.Greatest, fl.Greatest}, {&c.Gap, fl.Gap}} {
		if *k.into == 0 && k.known.Source == migrate.Claimed {
			*k.into = k.known.Time
			if k.into == &c.Gap {
				c.Gap = dialect.Claim(k.known.Time)
			}
		}
	}
	if c.Lease == 0 || c.Greatest < c.Lease {
		c.Greatest = 0 // it defaults to the smallest
	}
}

// keepTries is how often a write of the same result is tried where other
// watchers write at the same time. The next result carries all of it again.
const keepTries = 3

// keep writes one result, joined with what other watchers wrote. Where another
// watcher is at work that began earlier and proves as much, its window is kept:
// two watchers taking turns would show a gate two windows in turn.
func (o *observer) keep(ctx context.Context, r *audit.Result) error {
	if except, err := o.carved(ctx); err == nil && !slices.Equal(except, o.except) {
		return errCarved
	}
	mine := sighted(o.cfg.Name, r)
	mine.Except = o.except
	o.goesOn(&mine, &r.Evidence)
	o.remember(ctx, &mine, &r.Evidence)
	for range keepTries {
		written, err := o.keepOnce(ctx, mine)
		var unknown *wire.UnknownError
		var unsent *wire.NotSentError
		switch {
		case errors.Is(err, errRaced):
			continue
		case errors.As(err, &unknown) || errors.As(err, &unsent):
			return nil // the next one will do
		case err != nil:
			return err
		}
		if written != nil && o.cfg.Seen != nil {
			o.cfg.Seen(*written, r)
		}
		return nil
	}
	return nil
}

// keepOnce joins mine with what is written, and writes both while nobody else
// has written since. It returns:
//   - what was written
//   - nil where another watcher's words stand and mine adds nothing to them
//   - errRaced where another watcher wrote meanwhile
func (o *observer) keepOnce(ctx context.Context, mine Sighting) (*Sighting, error) {
	key := record.SeenKey(o.cfg.Namespace)
	was, err := record.TextOf(o.mux.Do(ctx, "GET", key))
	if err != nil {
		return nil, fmt.Errorf("migrate: reading %s: %w", key, err)
	}
	other, err := parseSighting(was)
	if err != nil {
		return nil, fmt.Errorf("migrate: %s: %w", key, err)
	}
	if other.Format != "" && was != o.wrote {
		o.before = other.with(o.before)
	}
	now, theirs := mine.with(o.before), other.Format != "" && other.Observer != o.cfg.Name && other.standsBefore(mine)
	if theirs {
		now = other.with(now)
	}
	// Without a record nobody is in Clean; one that cannot be read is the verbs' to tell.
	if r, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace))); err == nil && r.exists() && r.err == nil {
		now.alarmed(r.Record)
	}
	text, err := now.text()
	if err != nil || theirs && text == was {
		return nil, err
	}
	if err := o.replace(ctx, was, text); err != nil {
		return nil, err
	}
	o.wrote = text
	return &now, nil
}

// replace writes what was seen while it is still as it was read. A server that
// allows no scripts is written to without that check.
func (o *observer) replace(ctx context.Context, was, text string) error {
	key, keepFor := record.SeenKey(o.cfg.Namespace), int64(sightingTTL/time.Millisecond)
	done, err := redis.Int(o.mux.Eval(ctx, record.Step, key, was, text))
	switch {
	case wire.IsNoPerm(err) || wire.IsUnknownCommand(err):
		_, err = o.mux.Do(ctx, "SET", key, text, "PX", keepFor)
	case err == nil && done != 1:
		return errRaced
	case err == nil:
		_, err = o.mux.Do(ctx, "PEXPIRE", key, keepFor)
	}
	if err != nil {
		return fmt.Errorf("migrate: writing %s: %w", key, err)
	}
	return nil
}

// standsBefore reports that s is another's, still at work, and proves what mine
// would. Whether it is at work is not known for a while; an act that I saw since
// its last word cuts its window.
func (s Sighting) standsBefore(mine Sighting) bool {
	if !slices.Equal(s.Except, mine.Except) || mine.Until.Sub(s.Until) > watchFresh || s.From.After(mine.From) {
		return false
	}
	if last := later(mine.LastWrite, mine.LastFailed); last != nil && last.At.After(s.Until) {
		return false
	}
	for w, q := range mine.Quiet {
		if s.Quiet[w] < q {
			return false
		}
	}
	return true
}

// sighted is the digest of a watch.
func sighted(observer string, r *audit.Result) Sighting {
	e := &r.Evidence
	s := Sighting{
		Format: sightingFormat, Observer: observer, From: e.From, Until: e.Until,
		Lease: factOf(e.SmallestLease), LeaseLooks: factOf(e.LeaseLooks), Greatest: factOf(e.GreatestLease), Gap: factOf(e.LongestGap), Job: factOf(e.LongestHold), Pause: factOf(e.LongestPause),
		LastWrite: touchOf(e.LastWrite), LastFailed: touchOf(e.LastFailed),
		DoubleGrants: e.Counts.DoubleGrants, GetsetFirst: append([]string{}, e.GetsetFirst...),
	}
	if call := touchOf(e.LastCall); call != nil && later(later(s.LastWrite, s.LastFailed), call) == call {
		// In a form that nobody named. It is shown, since it cuts the window.
		s.LastFailed = call
	}
	if e.Stats != nil {
		s.LastCalled = e.Stats.LastMoved
	}
	s.seeQuiet(e)
	s.seeClocks(e)
	if e.Spread.Sound() {
		s.Spread = Fact{Time: e.Spread.Guaranteed, Basis: string(spreadBasis(e)), At: e.Until}
	}
	if e.Spread.Proved > 0 {
		s.Proved = Fact{Time: e.Spread.Proved, Basis: string(census.Measured), At: e.Until}
	}
	for _, k := range e.Keys {
		// The watch knows the fleet's own dialect alone: what another writes there it cannot read.
		if len(k.Dialects) > 1 || len(k.Dialects) == 1 && k.Counts.Unreadable > 0 {
			s.Mixed = append(s.Mixed, k.Key)
		}
		if k.LastWrite != nil || k.LastFailed != nil {
			s.Keys = append(s.Keys, SightedKey{k.Key, touchOf(k.LastWrite), touchOf(k.LastFailed)})
		}
	}
	s.bound()
	return s
}

// spreadBasis says on what the clocks' spread rests. A clock is what was written less the lease: where a
// lease was guessed, a client with another one and a wrong clock looks like one with a right clock.
func spreadBasis(e *census.Evidence) census.Basis {
	for _, lease := range []census.Span{e.SmallestLease, e.GreatestLease} {
		if lease.Known() && lease.Basis != census.Given && lease.Basis != census.Measured {
			return census.Inferred
		}
	}
	return census.Measured
}

// factOf leaves out what rests on a default or a claim: a gate asks for those itself. To a gate what is
// inferred is a hint, and no evidence.
func factOf(s census.Span) Fact {
	switch s.Basis {
	case census.Measured, census.Given, census.Inferred:
		return Fact{Time: s.Value, Basis: string(s.Basis), At: s.At, Who: s.Addr, Note: s.Note}
	}
	return Fact{}
}

func touchOf(a *census.Act) *Touch {
	if a == nil {
		return nil
	}
	who := []string{}
	for _, word := range []string{a.Addr, a.Name, a.Library} {
		if word != "" {
			who = append(who, word)
		}
	}
	return &Touch{At: a.At, Key: a.Key, What: string(a.What), Who: strings.Join(who, " ")}
}
