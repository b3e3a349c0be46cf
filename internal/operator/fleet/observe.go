// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
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

	// LeaseChecked is a claim, as in [census.Config].
	LeaseChecked bool

	// Monitor watches every command, without a break. It costs the server much
	// of its throughput. Without it, no attempt that fails is seen, and nothing
	// proves a window.
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
// clock steps.
func WatchClients(ctx context.Context, pool *redis.Pool, cfg ObserverConfig) error {
	o, err := newObserver(pool, cfg)
	if err != nil {
		return err
	}
	defer o.mux.Close()
	for {
		if err := o.watch(ctx, pool); !errors.Is(err, errAnew) && !errors.Is(err, errClaims) {
			return err
		}
	}
}

// errAnew ends a watch since its evidence was forgotten ([ForgetEvidence]). The
// next watch remembers nothing of before.
var errAnew = errors.New("migrate: what was seen is to be forgotten")

// errClaims ends a watch since a step put other claims into the record. By a
// guessed lease a watch proves nothing of clocks, so the next one goes by the
// claims.
var errClaims = errors.New("migrate: the record has other claims")

// watch watches the keys of the namespace until ctx ends. It returns errAnew
// where the evidence was forgotten meanwhile, and errClaims where the record's
// claims changed.
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
	given  ObserverConfig
	cfg    ObserverConfig // given, with the record's claims
	mux    *wire.Mux
	before Sighting  // what other watchers saw, earlier ones too
	anew   time.Time // from which on evidence counted when this watch began
	wrote  string    // last text that this watcher wrote; other bytes are another watcher's
	stale  bool      // whether the record has other claims than cfg
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
	return &observer{given: cfg, cfg: cfg, mux: mux}, nil
}

// auditConfig returns the configuration of the audit that watches.
func (o *observer) auditConfig(seen func(*audit.Result)) audit.Config {
	c := audit.Config{
		Config: census.Config{Match: scope.Literal(o.cfg.Namespace) + "*", DB: o.cfg.DB,
			Dialects: []dialect.Dialect{o.cfg.Dialect}},
		Timeout:   o.cfg.Timeout,
		Clock:     o.cfg.Clock,
		Seen:      seen,
		SeenEvery: o.cfg.Every,
	}
	c.Lease, c.Greatest, c.Gap = o.cfg.Lease, o.cfg.Greatest, o.cfg.Gap
	c.LeaseChecked = o.cfg.LeaseChecked
	if o.cfg.Monitor {
		c.Monitor = audit.MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute}
	}
	return c
}

// begin reads what earlier watchers saw, and what the record claims of the old
// clients.
func (o *observer) begin(ctx context.Context) error {
	text, err := record.TextOf(o.mux.Do(ctx, "GET", record.SeenKey(o.cfg.Namespace)))
	if err != nil {
		return fmt.Errorf("migrate: reading %s: %w", record.SeenKey(o.cfg.Namespace), err)
	}
	if o.before, err = parseSighting(text); err != nil {
		return fmt.Errorf("migrate: %s: %w", record.SeenKey(o.cfg.Namespace), err)
	}
	o.wrote = ""
	stored, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace)))
	if err != nil {
		return fmt.Errorf("migrate: reading %s: %w", record.Key(o.cfg.Namespace), err)
	}
	o.anew = stored.Evidence
	if now, err := wire.Time(o.mux.Do(ctx, "TIME")); err == nil {
		o.before = o.before.since(o.anew, now)
	}
	o.cfg, o.stale = o.given.claimed(stored.Record.Fleet), false
	return nil
}

// claimed returns c with the record's claims in the fields that are not set.
func (c ObserverConfig) claimed(fl migrate.Fleet) ObserverConfig {
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
	return c
}

// keepTries is how often one result is written where other watchers write at
// the same time. If all tries fail, nothing is lost: the next result contains
// this one.
const keepTries = 3

// keep writes one result, joined with what other watchers wrote. It keeps the
// window of another watcher that still runs, began earlier and proves as much:
// two watchers that overwrite each other would show a gate alternating windows.
// It returns errAnew where the evidence was forgotten since the watch began. A
// write without a reply is no error, since the next result contains this one.
func (o *observer) keep(ctx context.Context, r *audit.Result) error {
	mine := sighted(o.cfg.Name, r)
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
		if o.stale {
			return errClaims
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
//   - errRaced: another watcher wrote meanwhile, or the record changed.
//   - errAnew: the evidence was forgotten.
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
	if err := o.compares(ctx, &now); err != nil {
		return nil, err
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

// compares compares what was seen with the record: it raises what the record
// has of clocks, and sets the alarm. Without a record the fleet is not in
// Clean. The verbs report a record that cannot be read.
func (o *observer) compares(ctx context.Context, now *Sighting) error {
	r, err := readStored(o.mux.Do(ctx, "GET", record.Key(o.cfg.Namespace)))
	switch {
	case err != nil || !r.exists() || r.err != nil:
		return nil
	case r.Evidence.After(o.anew):
		return errAnew
	}
	next := o.given.claimed(r.Fleet)
	o.stale = next.Lease != o.cfg.Lease || next.Greatest != o.cfg.Greatest || next.Gap != o.cfg.Gap
	now.alarmed(r.Record)
	return o.raise(ctx, r, *now)
}

// raise writes into the record how far clocks were seen behind the server's or
// ahead of it at least, where that is more than the record has. Members that
// act by a smaller bound then take it for unknown. The record is compared, so
// that nothing comes back that was forgotten meanwhile. Where the server's user
// may not write the record, the gates alone know.
func (o *observer) raise(ctx context.Context, r stored, now Sighting) error {
	next := r.Record
	behind, ahead, _ := now.clocks(r.Fleet)
	next.SawBehind, next.SawAhead = max(next.SawBehind, behind.Time), max(next.SawAhead, ahead.Time)
	if next.SawBehind == r.SawBehind && next.SawAhead == r.SawAhead {
		return nil
	}
	_, err := change(ctx, o.mux, o.cfg.Namespace, r, next)
	if wire.IsNoPerm(err) || wire.IsUnknownCommand(err) {
		return nil
	}
	return err
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
// place of that of mine: the other watcher wrote within watchFresh, and so
// still runs, and its window began no later. If both prove nothing, the watch
// that began first is kept. An old client's act that mine shows after the end
// of s ends the window of s, which is then not kept.
func (s Sighting) standsBefore(mine Sighting) bool {
	if mine.Until.Sub(s.Until) > watchFresh || mine.QuietUntil.Sub(s.QuietUntil) > watchFresh {
		return false
	}
	if last := later(mine.LastWrite, mine.LastFailed); last != nil && last.At.After(s.Until) {
		return false
	}
	if s.Quiet == 0 || mine.Quiet == 0 {
		return s.Quiet > 0 || mine.Quiet == 0 && !s.From.After(mine.From)
	}
	return !s.QuietUntil.Add(-s.Quiet).After(mine.QuietUntil.Add(-mine.Quiet))
}

// sighted returns the digest of a watch's result.
func sighted(observer string, r *audit.Result) Sighting {
	e := &r.Evidence
	s := Sighting{
		Format: sightingFormat, Observer: observer, From: e.From, Until: e.Until,
		Facts: Facts{Lease: factOf(e.SmallestLease), LeaseLooks: factOf(e.LeaseLooks),
			Greatest: factOf(e.GreatestLease), Gap: factOf(e.LongestGap), Job: factOf(e.LongestHold),
			Pause: factOf(e.LongestPause)},
		LastWrite: touchOf(e.LastWrite), LastFailed: touchOf(e.LastFailed),
		Counts: e.Counted, LastCalled: e.LastMoved,
		DoubleGrants: e.Counts.DoubleGrants, GetsetFirst: append([]string{}, e.GetsetFirst...),
	}
	if call := touchOf(e.LastCall); call != nil && later(later(s.LastWrite, s.LastFailed), call) == call {
		// It may be a read, or have a value in no known form. It is shown all
		// the same, since it ends the window.
		s.LastFailed = call
	}
	s.seeQuiet(e)
	s.seeClocks(e)
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

// factOf leaves out defaults and claims, which a gate asks for itself. An
// inferred fact is a hint to a gate, and no evidence.
func factOf(s census.Span) Fact {
	switch s.Basis {
	case census.Measured, census.Inferred:
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
	what := string(a.What)
	if a.What == census.ActCalled {
		what = a.Detail
	}
	return &Touch{At: a.At, Key: a.Key, What: what, Who: strings.Join(who, " ")}
}
