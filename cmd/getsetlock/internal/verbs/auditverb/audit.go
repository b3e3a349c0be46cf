// Package auditverb are the verbs audit and doctor, which print the same findings and show the same
// live view of a watch.
package auditverb

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/demo"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

const auditLong = `Says what a live server shows of a fleet of old locks: which kinds of lock stand on it,
who writes them, whose clock is wrong and by how much, and what went wrong while it
looked.

First it goes through the keys that match, in slices (SCAN, never KEYS), and names the
form of each value. Then it watches for --for: it looks at the locks again and again, is
told by the server when they change (tracking), and counts calls. With --monitor it also
listens to all commands, in short bursts that end by themselves when the server gets
slower: only so it knows who writes, who waits, and whose clock is off by how much.
MONITOR costs a busy server a good part of its throughput while a burst lasts; what it
did cost is printed.

No key is changed, and nothing is left behind when it is killed. What the user may not
do is named, and the other sources are used.

A clock's offset is shown as two intervals. "Seen" is what each single write allows,
whatever the clock does between writes. It assumes the lease (--lease, --greatest where
leases differ) and, for its upper end, that no attempt takes longer than --gap. "If
steady" is narrower: it also assumes that the clock does not step. Where that cannot be,
a finding says so. --own-connections narrows it further; a watch can refute that claim
and never prove it. Without --lease a lease is guessed for each writer, marked with *,
and nothing is guaranteed.

--record writes all that was seen to a text file, from which --replay comes to the same
answer elsewhere, later; getsetlock skew --trace reads the holds in it. With --hash
names and values of what is no stamp are not in it.

--demo shows all this on an embedded server, with a fleet of old clients whose clocks
are wrong, in virtual time. No server is needed.

Exit codes: 0 nothing is wrong; 1 something is; 2 wrong use; 3 it could not be done; 128
+ n ended by a signal: what was seen until then is printed.`

// auditFlags are the question as the command line has it.
type auditFlags struct {
	server   out.ServerFlags
	dialect  out.DialectFlags
	match    string
	span     time.Duration
	monitor  bool
	lease    time.Duration
	greatest time.Duration
	gap      time.Duration
	idle     time.Duration
	own      bool
	checked  bool
	record   string
	replay   string
	report   string
	hash     bool
	demo     bool
	asJSON   bool
	dialects []dialect.Dialect
	spanned  bool // --for was given
}

// NewAudit returns the verb audit.
func NewAudit(e *out.Env) *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Say what a server shows of a fleet of old locks and its clocks",
		Long:  auditLong,
		Example: out.Examples(
			"getsetlock audit --demo                        # no server needed",
			"getsetlock audit --match 'lock:*'",
			"getsetlock audit --match 'lock:*' --monitor --lease 60s --report audit.html",
			"getsetlock audit --match 'lock:*' --monitor --record incident.txt --hash",
			"getsetlock audit --replay incident.txt --lease 60s",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(e, cmd); err != nil {
				return err
			}
			return f.run(e, cmd.Context())
		},
	}
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients speak (default: found out)")
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "*", "only keys of this pattern; quote it so that the shell leaves it alone")
	flags.DurationVar(&f.span, "for", 30*time.Second, "how long to watch; 0 watches until it is interrupted")
	flags.BoolVar(&f.monitor, "monitor", false, "listen to all commands too, in short bursts")
	out.PositiveVar(flags, &f.lease, "lease", 0, "leave the flag out to let the audit guess it", "what the old clients add to their clocks, or the least of it (default: guessed)")
	out.PositiveVar(flags, &f.greatest, "greatest", 0, "leave the flag out for the value of --lease", "the greatest lease of any old client (default: --lease)")
	out.ClaimVar(flags, &f.gap, "gap", "the longest an attempt of an old client takes, pauses included (default: unknown)")
	out.PositiveVar(flags, &f.idle, "idle", 0, "leave the flag out where the pause is unknown", "claim: the longest pause between two attempts of one old client, 24h for a job that runs each night; a watch as long measures behind and ahead (default $"+out.EnvIdle+", else unknown)")
	flags.BoolVar(&f.own, "own-connections", false, "claim: each old client has a connection of its own and waits for replies; narrows the offsets of steady clocks")
	flags.BoolVar(&f.checked, "lease-checked", false, "claim: --lease was looked up again, although what is written looks like a smaller one")
	flags.StringVar(&f.record, "record", "", "write what was seen to this file")
	flags.StringVar(&f.replay, "replay", "", "read such a file instead of watching a server")
	flags.StringVar(&f.report, "report", "", "write a page with plots and tables to this file")
	flags.BoolVar(&f.hash, "hash", false, "write keyed hashes instead of names and values that are no stamps to --record")
	flags.BoolVar(&f.demo, "demo", false, "watch an embedded fleet with wrong clocks, in virtual time")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// complete checks what the flags say together.
func (f *auditFlags) complete(e *out.Env, cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if err := cmp.Or(f.contradictions(given), leasesFit(f.lease, f.greatest), f.liveOnly(given), out.IdleOfEnvironment(e, &f.idle)); err != nil {
		return err
	}
	f.spanned = given("for")
	if f.demo && !given("match") {
		f.match = "lock:*" // what there is
	}
	if f.dialect.Name == "" && f.dialect.File == "" {
		return nil
	}
	d, err := f.dialect.Pick()
	f.dialects = []dialect.Dialect{d}
	return err
}

// contradictions refuses flags that cannot be meant together.
func (f *auditFlags) contradictions(given func(flag string) bool) error {
	switch {
	case f.span < 0:
		return out.WrongUse("--for %v: it must not be negative", f.span)
	case f.demo && given("replay"):
		return out.WrongUse("--demo and --replay both say what to look at instead of a server: give one")
	case f.hash && f.demo:
		return out.WrongUse("--hash hides what is of your server; the demo has nothing to hide")
	case f.hash && f.record == "":
		return out.WrongUse("--hash is for --record, which is not given")
	case given("match") && f.match == "":
		return out.WrongUse("--match is empty; '*' matches every key")
	}
	return nil
}

// liveOnly refuses flags of a live server where no live server is looked at.
func (f *auditFlags) liveOnly(given func(flag string) bool) error {
	for _, instead := range []struct {
		of    string
		given bool
		not   []string
	}{
		{"replay", given("replay"), []string{"redis", "cacert", "monitor", "record"}},
		{"demo", f.demo, []string{"redis", "cacert"}},
	} {
		if i := slices.IndexFunc(instead.not, given); instead.given && i >= 0 {
			return out.WrongUse("--%s is for a live server, not for --%s", instead.not[i], instead.of)
		}
	}
	return nil
}

// auditAnswer is what was found, and where.
type auditAnswer struct {
	where  string
	lease  time.Duration
	gap    time.Duration      // that is claimed, as in [dialect.Terms]
	match  string             // the keys that were asked for
	probe  *audit.ProbeResult // nil in a replay of a record that has none
	result *audit.Result      // never nil
	all    []census.Finding   // of both
	how    []string           // the command line, to make a report again

	replayed bool
}

func (f *auditFlags) run(e *out.Env, ctx context.Context) error {
	a := &auditAnswer{lease: f.lease, gap: f.gap, match: f.match, result: &audit.Result{}, how: f.commandLine()}
	if f.report != "" {
		if err := report.Check(f.report); err != nil { // not after an hour of watching
			return out.CouldNot(withoutPath(err), "writing --report %s", f.report)
		}
	}
	err := f.look(e, ctx, a)
	var said *out.ExitError
	if errors.As(err, &said) && said.Code == out.CodeUse || err != nil && a.empty() {
		return err
	}
	a.gather()
	interrupted := context.Cause(ctx)
	err = cmp.Or(err, f.publish(e, a))
	switch {
	case err != nil:
		return err
	case interrupted != nil && f.span > 0 && f.replay == "":
		return out.CouldNot(interrupted, "watching to the end; what was seen until then is above")
	case bad(a.all):
		return out.Exit(out.CodeBad)
	}
	return nil
}

// publish writes the report and prints the answer. A report that could not be written
// keeps nobody from reading the answer.
func (f *auditFlags) publish(e *out.Env, a *auditAnswer) error {
	var saving error
	if f.report != "" {
		if err := report.Save(f.report, a.page()); err != nil {
			saving = out.CouldNot(withoutPath(err), "writing --report %s", f.report)
		}
	}
	return cmp.Or(saving, f.print(e, a))
}

// withoutPath drops the name of a file that was being filled, which tells nobody anything.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// empty reports that nothing was seen at all.
func (a *auditAnswer) empty() bool {
	return (a.probe == nil || a.probe.Keys == 0) && a.result.Evidence.From.IsZero()
}

// gather puts the findings of both halves together.
func (a *auditAnswer) gather() {
	a.all = slices.Clone(a.result.Findings)
	if a.probe != nil {
		a.all = append(a.all, a.probe.Findings...)
	}
	if a.sawNothing() {
		a.all = append(a.all, a.nothing())
	}
	slices.SortStableFunc(a.all, census.Finding.Compare)
}

func (a *auditAnswer) nothing() census.Finding {
	f := census.Finding{Severity: census.SeverityNote, Kind: "nothing", What: "there is no key, and no lock was seen", Advice: "check the number of the database in --redis"}
	if a.match != "*" {
		f.What, f.Advice = fmt.Sprintf("no key matches %q, and no lock was seen", a.match), "check --match, and the number of the database in --redis"
	}
	return f
}

// sawNothing reports that the keys were gone through, that there were none, and that nobody wrote one
// meanwhile.
func (a *auditAnswer) sawNothing() bool {
	return a.probe != nil && a.probe.Refused == "" && a.probe.Keys == 0 && len(a.result.Evidence.Writers) == 0
}

// bad reports that an answer holds more than notes.
func bad(all []census.Finding) bool {
	return slices.ContainsFunc(all, func(f census.Finding) bool { return f.Severity != census.SeverityNote })
}

// look asks whatever the flags name.
func (f *auditFlags) look(e *out.Env, ctx context.Context, a *auditAnswer) error {
	if f.replay != "" {
		return f.again(e, a)
	}
	rec, err := f.openRecord()
	if err != nil {
		return err
	}
	if f.demo {
		err = f.watchDemo(ctx, e, a, rec)
	} else {
		err = f.watch(e, ctx, a, rec)
	}
	if closing := rec.close(); err == nil && closing != nil {
		err = out.CouldNot(withoutPath(closing), "writing --record %s", f.record)
	}
	return err
}

// config is what both a watch and a replay are asked with.
func (f *auditFlags) config(e *out.Env) audit.Config {
	return audit.Config{Config: census.Config{Match: f.match, Dialects: f.dialects, Lease: f.lease, Greatest: f.greatest, Gap: f.gap, Idle: f.idle, OwnConnections: f.own, LeaseChecked: f.checked}, Timeout: e.Timeout}
}

func (f *auditFlags) again(e *out.Env, a *auditAnswer) error {
	file, err := os.Open(f.replay)
	if err != nil {
		return out.WrongUse("--replay %s: %w", f.replay, withoutPath(err))
	}
	defer file.Close()
	a.where, a.replayed = "record "+f.replay, true
	r, err := audit.Replay(file, f.config(e))
	if r != nil {
		a.result, a.probe = r, r.Probe
	}
	var broken *offset.ObservedError
	switch {
	case errors.As(err, &broken) && a.empty():
		return out.WrongUse("--replay %s: %w", f.replay, err)
	case err != nil:
		return out.CouldNot(err, "reading --replay %s to its end", f.replay)
	}
	return nil
}

func (f *auditFlags) watch(e *out.Env, ctx context.Context, a *auditAnswer, rec *record) error {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	defer pool.Close()
	a.where = address
	if err := f.probe(e, ctx, a, pool); err != nil || ctx.Err() != nil {
		return err
	}
	cfg := f.config(e)
	cfg.For, cfg.Monitor.On = f.span, f.monitor
	cfg.DB = f.server.Database(e)
	view := newLiveView(e, f.server.Quiet, f.span)
	cfg.Seen, cfg.SeenEvery = view.show, view.every()
	if rec != nil {
		cfg.Record, cfg.Probed = rec, a.probe
	}
	if f.hash {
		cfg.Hash = []byte(rand.Text())
	}
	r, err := audit.Watch(ctx, pool, cfg)
	view.end()
	if r != nil {
		a.result = r
	}
	switch {
	case rec.failed() != nil:
		return out.CouldNot(withoutPath(rec.failed()), "writing --record %s; it ends with what was seen until then", f.record)
	case err != nil && ctx.Err() == nil:
		return out.CouldNot(err, "watching %s", address)
	case ctx.Err() == nil:
		if away := answers(e, ctx, pool); away != nil && ctx.Err() == nil {
			return out.CouldNot(away, "watching %s to the end; what was seen until then is above", address)
		}
	}
	return nil
}

// answers asks a server for a sign of life, whatever it is: one that was away when a watch ended was not
// watched, and had nothing wrong for that reason.
func answers(e *out.Env, ctx context.Context, pool *redis.Pool) error {
	mux, err := wire.New(pool, wire.Options{Timeout: e.Timeout})
	if err != nil {
		return err
	}
	defer mux.Close()
	_, err = mux.Do(ctx, "PING")
	var said redis.Error
	if errors.As(err, &said) {
		return nil
	}
	return err
}

// probe goes through the keys. That this user may not is no reason not to watch.
func (f *auditFlags) probe(e *out.Env, ctx context.Context, a *auditAnswer, pool *redis.Pool) error {
	p := e.Progress(f.server.Quiet, "keys looked at", -1)
	defer p.End()
	found, err := audit.Probe(ctx, pool, audit.ProbeConfig{Match: f.match, Dialects: f.dialects, Lease: max(f.lease, f.greatest), Timeout: e.Timeout, Progress: p.Set, DB: f.server.Database(e)})
	a.probe = found
	switch {
	case ctx.Err() != nil:
		return nil // told of at the end
	case err != nil && (found == nil || found.Refused == ""):
		return out.CouldNot(err, "looking at the keys of %s", a.where)
	}
	return nil
}

// watchDemo plays the fleet, and looks at it as at any other.
func (f *auditFlags) watchDemo(ctx context.Context, e *out.Env, a *auditAnswer, rec *record) error {
	fleet, err := demo.New(1)
	if err != nil {
		return out.CouldNot(err, "starting the demo")
	}
	defer fleet.Close()
	cfg := f.config(e)
	if cfg.Lease == 0 {
		cfg.Lease, a.lease = demo.Lease, demo.Lease
	}
	if cfg.Gap == 0 {
		cfg.Gap, a.gap = demo.Gap, demo.Gap
	}
	folded, err := census.New(cfg.Config)
	if err != nil {
		return out.WrongUse("%w", err)
	}
	a.where = fmt.Sprintf("the demo: %d old clients, %v of virtual time", len(demo.Members()), f.demoSpan())
	lines := rec.lines()
	err = fleet.Run(ctx, f.demoSpan(), func(o offset.Observed) {
		folded.Add(o)
		lines(o)
	})
	if err != nil {
		return out.CouldNot(err, "running the demo")
	}
	evidence, findings := folded.Evidence()
	a.result = &audit.Result{Evidence: evidence, Findings: findings}
	for _, h := range a.result.Evidence.Holds { // what skew --trace reads
		lines(offset.Observed{At: h.At, Kind: offset.ObservedHold, Addr: h.Addr, Key: h.Key, For: h.For})
	}
	pool := fleet.Pool()
	defer pool.Close()
	a.probe, err = audit.Probe(ctx, pool, audit.ProbeConfig{Match: f.match, Dialects: f.dialects, Lease: cfg.Lease, Timeout: e.Timeout, Hurry: true})
	if err != nil && ctx.Err() == nil {
		return out.CouldNot(err, "looking at the demo's keys")
	}
	for _, o := range a.probe.Observed() {
		lines(o)
	}
	return rec.failure(f.record)
}

// demoSpan is how long the demo's fleet is watched: long enough for its mishaps, unless told otherwise.
func (f *auditFlags) demoSpan() time.Duration {
	if f.spanned && f.span > 0 {
		return f.span
	}
	return 2 * time.Minute
}

// commandLine is how a report is made again.
func (f *auditFlags) commandLine() []string {
	words := []string{"getsetlock", "audit"}
	add := func(name, value string) { words = append(words, "--"+name, "'"+value+"'") }
	switch {
	case f.demo:
		words = append(words, "--demo")
	case f.replay != "":
		add("replay", f.replay)
	}
	if f.match != "*" && !f.demo {
		add("match", f.match)
	}
	if f.monitor {
		words = append(words, "--monitor")
	}
	if f.lease > 0 {
		add("lease", f.lease.String())
	}
	if f.greatest > 0 {
		add("greatest", f.greatest.String())
	}
	if gap, claimed := dialect.Claimed(f.gap); claimed {
		add("gap", gap.String())
	}
	if f.idle > 0 {
		add("idle", f.idle.String())
	}
	return words
}
