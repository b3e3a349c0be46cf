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
	// Namespace is what the watched keys begin with.
	Namespace string

	// DB is the number of the database that the pool selects. Attempts in other
	// databases do not count. Defaults to what the server says of the pool's
	// connections.
	DB int

	// Name is the watcher's name for people. Defaults to a random one.
	Name string

	// Dialect is what the old clients write. Defaults to [dialect.Jedis].
	Dialect dialect.Dialect

	// Lease and Greatest are the smallest and the greatest lease of the old
	// clients. Gap is the longest time that an attempt of an old client takes.
	// All three are in the form of [dialect.Terms]. Unset ones are taken from
	// the claims in the record. Without a lease, leases are guessed and no
	// clock is measured. Without a gap nothing bounds a clock from above, nor
	// the spread.
	Lease, Greatest, Gap time.Duration

	// LeaseChecked and OwnConnections are claims, as in [census.Config].
	LeaseChecked, OwnConnections bool

	// Idle is the longest pause between two attempts of one old client. Bounds
	// of clocks count as measured after a window of that length, and never
	// without Idle.
	Idle time.Duration

	// Monitor watches every command, without a break. It costs the server much
	// of its throughput. It is needed where the server's counts of SETNX and
	// GETSET prove nothing: with some dialects, and on some servers.
	Monitor bool

	// Every is the time between two writes to the server. Defaults to 5 s.
	Every time.Duration

	// Timeout is the longest wait for each reply, in real time. Defaults to
	// 2 s.
	Timeout time.Duration

	// Clock measures the observer's own time. Defaults to [lock.Machine].
	Clock lock.Clock

	// Seen, if not nil, is called after each write, with what was written and
	// with the whole result of the watch.
	Seen func(Sighting, *audit.Result)

	// watch stands in for audit.Watch in tests.
	watch func(context.Context, *redis.Pool, audit.Config) (*audit.Result, error)
}

// WatchClients watches the old clients until ctx ends, and keeps on the server
// what the gates need of it. It may run in any program, and one watcher is
// enough.
//
// A watcher proves nothing of a time when it did not watch. So a window without
// old clients begins anew when the watcher ends or stalls, or when the server's
// clock steps. The server's own counts are an exception: if a later watch finds
// the same counts under the same run id, no old client tried in between, and
// the window by counts goes on.
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

// errCarved ends a watch whose keys are no longer those of the namespace. The
// watcher then watches the right keys.
var errCarved = errors.New("migrate: keys were carved out of the namespace, or given back to it")

// watch watches the keys that the namespace has now. It returns errCarved where
// these change, and nil when ctx ends.
func (o *observer) watch(ctx context.Context, pool *redis.Pool) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	results := make(chan *audit.Result, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		// The next result replaces one that was not read yet.
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

// writeEvery is the default time between two writes of a watcher.
const writeEvery = 5 * time.Second

// observer is one watcher.
type observer struct {
	cfg    ObserverConfig
	mux    *wire.Mux
	before Sighting // what other watchers saw, earlier ones too
	wrote  string   // last text that this watcher wrote; other bytes are another watcher's
	except []string // namespaces whose keys are not watched

	machine look.Machine
	counted *counted // counts at the end of the last watch; nil if unknown
	began   counted  // counts at the beginning of this watch; unknown without a run id
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
		return nil, fmt.Errorf("migrate: ObserverConfig.Every is %v; it must be positive and at most %v, or gates take the watcher for stopped", cfg.Every, watchFresh/2)
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

// auditConfig returns the configuration of the audit that watches.
func (o *observer) auditConfig(seen func(*audit.Result)) audit.Config {
	c := audit.Config{
		Config: census.Config{Match: scope.Literal(o.cfg.Namespace) + "*", Except: o.except, DB: o.cfg.DB,
			Dialects: []dialect.Dialect{o.cfg.Dialect}, Idle: o.cfg.Idle},
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

// carved reads the namespaces that were carved out of the watched one. There
// are none if there is no record, or none that can be read.
func (o *observer) carved(ctx context.Context) ([]string, error) {
	found, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace)))
	if err != nil {
		return nil, fmt.Errorf("migrate: reading %s: %w", record.Key(o.cfg.Namespace), err)
	}
	return found.Except, nil
}

// begin reads what earlier watchers saw, which keys are to be watched, and what
// the record claims of the old clients.
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

// claimed fills unset fields with the record's claims. Measured values in the
// record are no claims.
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
		c.Greatest = 0 // defaults to the smallest lease
	}
}

// keepTries is how often one result is written where other watchers write at
// the same time. If all tries fail, nothing is lost: the next result contains
// this one.
const keepTries = 3

// keep writes one result, joined with what other watchers wrote. It keeps the
// window of another watcher that still runs, began earlier and proves as much:
// two watchers that overwrite each other would show a gate alternating windows.
// It returns errCarved if the watched keys are no longer those of the
// namespace. A write without a reply is no error, since the next result
// contains this one.
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
			return nil // the next result has all of it
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

// keepOnce joins mine with what is stored, and writes both if no other watcher
// has written since. It returns:
//
//   - what was written.
//   - nil: another watcher's window is kept, and mine adds nothing to what it
//     wrote.
//   - errRaced: another watcher wrote meanwhile.
//   - another error: the stored sighting could not be read or written.
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
	now, theirs := mine.with(o.before),
		other.Format != "" && other.Observer != o.cfg.Name && other.standsBefore(mine)
	if theirs {
		now = other.with(now)
	}
	// Without a record the fleet is not in Clean. The verbs report a record
	// that cannot be read.
	if r, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace))); err == nil && r.exists() &&
		r.err == nil {
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

// replace writes text in place of the stored sighting if that is still was;
// otherwise it returns errRaced. If the server allows no scripts, it writes
// without that check.
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

// standsBefore reports whether the window of s, another watcher's, is kept in
// place of that of mine. It is kept if the other watcher wrote within
// watchFresh, and so still runs, began earlier, and proves as much as mine
// does. An old client's act that mine shows after the end of s ends the window
// of s, which is then not kept.
func (s Sighting) standsBefore(mine Sighting) bool {
	if !slices.Equal(s.Except, mine.Except) || mine.Until.Sub(s.Until) > watchFresh ||
		s.From.After(mine.From) {
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

// sighted returns the digest of a watch's result.
func sighted(observer string, r *audit.Result) Sighting {
	e := &r.Evidence
	s := Sighting{
		Format: sightingFormat, Observer: observer, From: e.From, Until: e.Until,
		Lease: factOf(e.SmallestLease), LeaseLooks: factOf(e.LeaseLooks), Greatest: factOf(e.GreatestLease),
		Gap: factOf(e.LongestGap), Job: factOf(e.LongestHold), Pause: factOf(e.LongestPause),
		LastWrite: touchOf(e.LastWrite), LastFailed: touchOf(e.LastFailed),
		DoubleGrants: e.Counts.DoubleGrants, GetsetFirst: append([]string{}, e.GetsetFirst...),
	}
	if call := touchOf(e.LastCall); call != nil && later(later(s.LastWrite, s.LastFailed), call) == call {
		// The last call has a value in no known form. It is shown all the same,
		// since it ends the window.
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
		// The watch reads only the fleet's dialect. So unreadable values are
		// those of another dialect.
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

// spreadBasis says whether the clock spread was measured or inferred. A clock
// is a written stamp less the lease. Where a lease was guessed, a client with
// another lease and a wrong clock looks like one with a right clock.
func spreadBasis(e *census.Evidence) census.Basis {
	for _, lease := range []census.Span{e.SmallestLease, e.GreatestLease} {
		if lease.Known() && lease.Basis != census.Given && lease.Basis != census.Measured {
			return census.Inferred
		}
	}
	return census.Measured
}

// factOf leaves out defaults and claims, which a gate asks for itself. An
// inferred fact is a hint to a gate, and no evidence.
func factOf(s census.Span) Fact {
	switch s.Basis {
	case census.Measured, census.Given, census.Inferred:
		return Fact{Time: s.Value, Basis: string(s.Basis), At: s.At, Who: s.Addr, Note: s.Note}
	}
	return Fact{}
}

// touchOf returns an act in the form that gates read; nil for none.
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
