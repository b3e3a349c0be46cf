// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// Options say which fleet is meant, and what the operator adds to what is seen.
type Options struct {
	// Namespace is what the fleet's keys begin with. Defaults to the empty
	// text, which all keys begin with.
	Namespace string

	// Dialect is what the old clients write. Defaults to the dialect in the
	// record, if that is a preset, and for Init to [dialect.Jedis].
	Dialect dialect.Dialect

	// Claims are the operator's words in place of evidence that is missing.
	Claims Claims

	// Go takes the step if its gate is open. Without it nothing changes, with
	// one exception: Init writes a record where there is none. Go opens no
	// closed gate.
	Go bool

	// To names the phase that Advance or Back goes to, and no other. Where the
	// fleet is there already, the call does nothing and succeeds, so that a
	// call whose outcome nobody saw can be repeated. NoPhase means the next
	// phase. For Init it is the phase of a fleet whose record was lost, where
	// no member can say it. Other verbs ignore it.
	To migrate.Phase

	// Forget are ids of members that are dead, or "dead" for all that have
	// vanished and whose leases are over. With Go they are deleted from the
	// roster, even where the gate stays closed.
	Forget []string

	// Refused are the users that old clients log in as, after their right to
	// take locks was removed. The gate to Clean asks the server whether that is
	// so, and then needs no window.
	Refused []string

	// Wait is the longest time that a step waits for what follows it:
	// acknowledgements, the end of leases, the last tombstone. A later call of
	// the same verb does what is left. Zero looks once.
	Wait time.Duration

	// ForGate makes a step wait for its gate to open too, within Wait.
	ForGate bool

	// Clock paces that waiting. Defaults to [lock.Machine].
	Clock lock.Clock

	// Timeout is the longest wait for each reply, in real time. Defaults to
	// 2 s.
	Timeout time.Duration

	// Progress, if not nil, is called with a sentence that says what is waited
	// for: when that changes, and else every 10 s.
	Progress func(string)
}

// Report is the answer of every verb.
type Report struct {
	Namespace string
	Dialect   string
	Phase     migrate.Phase // NoPhase where there is no record
	Epoch     int64
	Pending   migrate.Phase
	Since     time.Time
	ServerNow time.Time

	// Moved: this call changed the record.
	Moved bool
	// Over: nothing is left to be done of the last step.
	Over bool

	// Target is what the record says that members compose their locks with.
	Target  string
	Members []migrate.MemberState

	// Claims are what is claimed of the old clients, each with what was seen
	// that contradicts it.
	Claims []Claim

	// Gate is the gate of the step in question; nil where no step is possible.
	Gate *Gate

	// Notes are sentences on what was done and what the operator has to know
	// now.
	Notes []string
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// desk is one call of a verb.
type desk struct {
	opts   Options
	clock  clocks.Clock
	mux    *wire.Mux
	second *wire.Mux          // another connection, asked which server it leads to
	ahead  map[string]unmoved // heartbeats in the future, by member
	notes  []string           // what was done before the report was made
	told   told
}

// errBehindAlone refuses a Behind, which permits takeovers, in a dialect that
// nobody stated: what Init writes by default is a guess.
var errBehindAlone = errors.New("migrate: Options.Claims.Behind needs Options.Dialect, which states that the time in a value is the end of a lease, not its start")

func open(pool *redis.Pool, o Options) (*desk, error) {
	if err := record.CheckNamespace(o.Namespace); err != nil {
		return nil, err
	}
	for name, d := range map[string]time.Duration{
		"Lease": o.Claims.Lease, "Greatest": o.Claims.Greatest, "Spread": dialect.Bound(o.Claims.Spread),
		"Gap":    dialect.Bound(o.Claims.Gap),
		"Behind": dialect.Bound(o.Claims.Behind), "Ahead": dialect.Bound(o.Claims.Ahead), "Job": o.Claims.Job,
		"Idle": o.Claims.Idle,
	} {
		if d < 0 || d > record.LongestTime {
			return nil, fmt.Errorf("migrate: Options.Claims.%s is %v; it must be positive and plausible",
				name, d)
		}
	}
	if _, claimed := dialect.Claimed(o.Claims.Behind); claimed && o.Dialect == (dialect.Dialect{}) {
		return nil, errBehindAlone
	}
	if o.Dialect != (dialect.Dialect{}) {
		if err := o.Dialect.Validate(); err != nil {
			return nil, fmt.Errorf("migrate: Options.Dialect: %w", err)
		}
	}
	d := &desk{opts: o, clock: clocks.New(o.Clock)}
	for _, mux := range []**wire.Mux{&d.mux, &d.second} {
		var err error
		if *mux, err = wire.New(pool, wire.Options{Timeout: o.Timeout}); err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
	}
	return d, nil
}

func (d *desk) close() {
	_ = d.mux.Close()
	_ = d.second.Close()
}

// gather asks the server for everything that gates are judged by. It reads the
// keys first, since that takes longest, then the record, and the roster last.
// If a step was taken meanwhile, it reads everything again, so that no gate is
// judged by parts of two steps.
func (d *desk) gather(ctx context.Context) (*facts, error) {
	for {
		f, err := d.gatherOnce(ctx)
		if err != nil {
			return nil, d.refused(err)
		}
		same, err := d.callRoll(ctx, f)
		if err != nil {
			return nil, d.refused(err)
		}
		if !same {
			continue
		}
		if err := d.callOthers(ctx, f); err != nil {
			return nil, d.refused(err)
		}
		return f, nil
	}
}

func (d *desk) gatherOnce(ctx context.Context) (*facts, error) {
	f := &facts{namespace: d.opts.Namespace, claims: d.opts.Claims}
	replies := d.mux.Batch(ctx, []wire.Command{
		wire.Cmd("GET", record.Key(d.opts.Namespace)), wire.Cmd("GET", record.SeenKey(d.opts.Namespace)),
		wire.Cmd("INFO"), wire.Cmd("INFO", "server"),
	})
	var err error
	if f.record, err = readStored(replies[0].Value, replies[0].Err); err != nil {
		return nil, err
	}
	seen, err := record.TextOf(replies[1].Value, replies[1].Err)
	if err != nil {
		return nil, err
	}
	f.sighting, f.unread = parseSighting(seen)
	if f.server, err = infoOf(replies[2]); err != nil {
		return nil, err
	}
	server, err := infoOf(replies[3])
	if err != nil {
		return nil, err
	}
	f.server.runID = server.runID
	if err := d.otherRun(ctx, &f.server); err != nil {
		return nil, err
	}
	if f.server.cluster {
		cluster, _ := wire.Info(d.mux.Do(ctx, "CLUSTER", "INFO"))
		f.server.shards, _ = strconv.Atoi(cluster["cluster_size"])
	}
	if f.dialect, err = d.dialect(f.record); err != nil {
		return nil, err
	}
	if f.now, err = d.serverNow(ctx); err != nil {
		return nil, err
	}
	s, err := newSurveyor(d.mux, f)
	if err != nil {
		return nil, err
	}
	fleet := f.fleet()
	s.terms, s.margin = dialectTerms(fleet), f.liveMargin(fleet)
	// Before the keys are read: what a client won until its right was taken is
	// among them.
	f.rights = readRights(ctx, d.mux, f.dialect, f.now, f.keysAsked(), d.opts.Refused)
	f.survey, err = s.look(ctx)
	return f, err
}

// otherRun asks on a second connection which server answers. Where two
// connections get different run ids, and again when both are asked anew, a
// proxy leads them to several servers. Then the run id counts as unknown. After
// a fail-over both connections are soon told the same.
func (d *desk) otherRun(ctx context.Context, s *serverInfo) error {
	if s.runID == "" {
		s.noRun = "the server names no run id (INFO)"
		return nil
	}
	for range asksOfRun {
		var told [2]string
		for i, mux := range []*wire.Mux{d.second, d.mux} {
			var reply wire.Reply
			reply.Value, reply.Err = mux.Do(ctx, "INFO", "server")
			info, err := infoOf(reply)
			if err != nil {
				return err
			}
			told[i] = info.runID
		}
		if s.runID = told[0]; told[0] == told[1] {
			return nil
		}
	}
	s.runID, s.noRun = "", "two connections were told different run ids, as by a proxy before several servers"
	return nil
}

// asksOfRun is how often the two connections are asked for the run id.
const asksOfRun = 3

// infoOf reads a reply to INFO. A server that refuses INFO gives an empty
// serverInfo. A lost connection is an error, since its server may have been
// replaced.
func infoOf(r wire.Reply) (serverInfo, error) {
	var refused redis.Error
	if r.Err != nil && !errors.As(r.Err, &refused) {
		return serverInfo{}, r.Err
	}
	info, _ := wire.Info(r.Value, r.Err)
	most, err := strconv.ParseInt(info["maxmemory"], 10, 64)
	return serverInfo{policy: info["maxmemory_policy"], maxMemory: most, known: err == nil,
		runID: info["run_id"], cluster: info["cluster_enabled"] == "1"}, nil
}

func (d *desk) serverNow(ctx context.Context) (time.Time, error) {
	return wire.Time(d.mux.Do(ctx, "TIME"))
}

// dialect is Options.Dialect, or the recorded dialect where that is unset.
func (d *desk) dialect(found stored) (dialect.Dialect, error) {
	switch {
	case d.opts.Dialect != (dialect.Dialect{}):
		return d.opts.Dialect, nil
	case found.Dialect == "":
		return dialect.Jedis(), nil
	}
	preset, err := dialect.Lookup(found.Dialect)
	if err != nil {
		return preset, fmt.Errorf("migrate: the namespace %q is recorded for the dialect %s, which is no preset: give its file by --dialect-file", d.opts.Namespace, found.Dialect)
	}
	return preset, nil
}

// refused adds to a NOPERM error the rights that the verbs need.
func (d *desk) refused(err error) error {
	if wire.IsNoPerm(err) {
		return fmt.Errorf("migrate: the server refuses; the user that migrates needs SCAN, GET, GETRANGE, PTTL, PEXPIRE, SET, DEL, HGETALL, HGET, HSET, HSETNX, HDEL, RPUSH, LTRIM, TYPE, EXISTS, TIME, INFO, EVAL and EVALSHA on the keys gsl:* and on those of the locks: %w", err)
	}
	return err
}

// states are the members as reports show them.
func states(all []seat) []migrate.MemberState {
	var out []migrate.MemberState
	for _, m := range all {
		out = append(out, m.MemberState)
	}
	return out
}

func (d *desk) report(f *facts) *Report {
	r := &Report{
		Namespace: f.namespace, Dialect: f.dialect.Name, ServerNow: f.now, Members: states(f.members()),
		Phase: f.record.Phase, Epoch: f.record.Epoch, Pending: f.record.Pending, Since: f.record.Since,
	}
	r.Over = f.record.Pending == migrate.NoPhase
	r.Notes = slices.Clone(d.notes)
	r.Target, r.Claims = f.record.Target, f.claimed()
	return r
}

// ReadRecord returns the record of a namespace. Where there is none, or none
// that can be read, the error wraps [migrate.ErrNoPhase] and says what to do.
func ReadRecord(ctx context.Context, pool *redis.Pool, namespace string) (migrate.Record, error) {
	d, err := open(pool, Options{Namespace: namespace})
	if err != nil {
		return migrate.Record{}, err
	}
	defer d.close()
	found, err := readStored(d.mux.Do(ctx, "GET", record.Key(namespace)))
	switch {
	case err != nil:
		return migrate.Record{}, d.refused(fmt.Errorf("migrate: reading %s: %w", record.Key(namespace), err))
	case !found.exists():
		return migrate.Record{}, fmt.Errorf("%w: %w", migrate.ErrNoPhase, record.Missing(namespace))
	case found.err != nil:
		return migrate.Record{}, fmt.Errorf("%w: the record %s cannot be read: %w", migrate.ErrNoPhase,
			record.Key(namespace), found.err)
	}
	return found.Record, nil
}

// Status says where a fleet is and what the next step forwards needs. It
// changes nothing.
func Status(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	o.Go = false
	return run(ctx, pool, o, func(d *desk, f *facts) (*Report, error) {
		r := d.report(f)
		if next, ok := following(f.record.Phase); ok {
			gate := judge(f, next)
			r.Gate = &gate
		} else {
			r.Gate = d.outdated(f)
			r.alarm(f)
			r.forgives(f)
		}
		return r, nil
	})
}

// outdated is the gate of a record that no step leads from, where a member has
// seen a later record. Otherwise it is nil.
func (d *desk) outdated(f *facts) *Gate {
	if !f.record.readable() || !f.outdated() {
		return nil
	}
	gate := d.remains(f)
	return &gate
}

// following is the next phase, Clean included.
func following(p migrate.Phase) (migrate.Phase, bool) {
	return p + 1, p >= migrate.Observe && p < migrate.Clean
}
