// SPDX-License-Identifier: Apache-2.0

// Package auditverb has the verbs audit and doctor. Both print the same
// findings and the same lines during a watch.
package auditverb

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/probe"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// auditLong is what --help says.
//
//go:embed audit.txt
var auditLong string

// auditFlags are the flags of the verb audit.
type auditFlags struct {
	server   out.ServerFlags
	dialect  out.DialectFlags
	span     time.Duration
	monitor  bool
	record   string
	replay   string
	report   string
	hash     bool
	demo     bool
	asJSON   bool
	dialects []dialect.Dialect

	auditClaims
}

// auditClaims are what the command line says of the old clients. Times are as
// [dialect.Terms] has them.
type auditClaims struct {
	match           string // pattern of the keys
	lease, greatest time.Duration
	gap             time.Duration
	behind, ahead   time.Duration
	checked         bool
	how             string // command line that makes the report again
}

// NewAudit returns the verb audit.
func NewAudit(e *out.Env) *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Report on a server's old locks, their clients and clocks",
		Long:  auditLong,
		Example: out.Examples(
			"getsetlock audit --demo                   # needs no server",
			"getsetlock audit --match 'lock:*'",
			"# who writes, and whose clock is wrong, on a page with the causes first",
			"getsetlock audit --match 'lock:*' --lease 60s --monitor --report a.html",
			"# record now, and look again later",
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
	f.dialect.Register(cmd, "what the old clients write (default: detected)")
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "*", "only keys of this pattern; quote it, or the shell expands it")
	flags.DurationVar(&f.span, "for", 30*time.Second, "how long to watch; 0: until interrupted")
	flags.BoolVar(&f.monitor, "monitor", false, "listen to all commands too, in short bursts")
	out.PositiveVar(flags, &f.lease, "lease", 0, "leave the flag out to let the audit guess it",
		"the old clients' lease, or the shortest of them (default: guessed)")
	out.PositiveVar(flags, &f.greatest, "greatest", 0, "leave the flag out for the value of --lease",
		"the old clients' longest lease (default: --lease)")
	out.ClaimVar(flags, &f.gap, "gap",
		"claim: longest time that an old client's attempt takes, pauses included (default: unknown)")
	out.ClaimVar(flags, &f.behind, "behind",
		"claim: how far the slowest old client's clock is at most behind the server's (default $"+
			out.EnvBehind+", else unknown)")
	out.ClaimVar(flags, &f.ahead, "ahead",
		"claim: how far the fastest old client's clock is at most ahead of the server's (default $"+
			out.EnvAhead+", else unknown)")
	flags.BoolVar(&f.checked, "lease-checked", false,
		"claim: you checked --lease again, although the keys look like a shorter lease")
	flags.StringVar(&f.record, "record", "", "write what was seen to this file")
	flags.StringVar(&f.replay, "replay", "", "read a file made by --record instead of watching a server")
	flags.StringVar(&f.report, "report", "", "write a page to this file: causes and what to do, which client has which finding, clocks and waits, the key with the most mishaps")
	flags.BoolVar(&f.hash, "hash", false,
		"--record: write keyed hashes in place of names and of values that are no stamps")
	flags.BoolVar(&f.demo, "demo", false, "audit a recorded fleet with wrong clocks; needs no server")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// ofServer are the flags that mean nothing without a live server.
var ofServer = []string{"redis", "cacert", "monitor", "record", "for"}

const forLive = "--%s is for a live server, not for "

// complete checks the flags against each other and fills in what follows from
// them.
func (f *auditFlags) complete(e *out.Env, cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if f.demo {
		f.claimForDemo(given)
	}
	if err := cmp.Or(f.contradictions(given), leasesFit(f.lease, f.greatest),
		out.Refuse(cmd,
			out.Rule{If: f.demo, Flags: ofServer, Says: forLive + "--demo"},
			out.Rule{If: given("replay"), Flags: ofServer, Says: forLive + "--replay"}),
		out.ClaimsOfEnvironment(e, &f.behind, &f.ahead)); err != nil {
		return err
	}
	f.how = out.CommandLine(cmd)
	var err error
	f.dialects, err = f.dialect.Named()
	return err
}

// contradictions refuses flags that contradict each other.
func (f *auditFlags) contradictions(given func(flag string) bool) error {
	switch {
	case f.span < 0:
		return out.WrongUse("--for %v: it must not be negative", f.span)
	case f.demo && given("replay"):
		return out.WrongUse("--demo and --replay both replace the server: give one")
	case f.hash && f.record == "":
		return out.WrongUse("--hash is for --record, which is not given")
	case given("match") && f.match == "":
		return out.WrongUse("--match is empty; '*' matches every key")
	}
	return nil
}

// auditAnswer is what audit found, and where.
type auditAnswer struct {
	auditClaims
	where  string
	probe  *probe.Result    // nil in a replay: a record has no probe
	result *audit.Result    // never nil
	all    []census.Finding // findings of probe and result, sorted
	made   time.Time        // when the report was made

	replayed bool
}

func (f *auditFlags) run(e *out.Env, ctx context.Context) error {
	a := &auditAnswer{auditClaims: f.auditClaims, result: &audit.Result{}}
	if err := out.CheckReport(f.report); err != nil { // now, and not after an hour of watching
		return err
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

// publish writes the report and prints the answer. It prints the answer even if
// the report could not be written.
func (f *auditFlags) publish(e *out.Env, a *auditAnswer) error {
	var saving error
	if f.report != "" {
		a.made = e.Clock.Now()
		saving = e.SaveReport(f.server.Quiet, f.report, a.answer())
	}
	if f.asJSON {
		return cmp.Or(saving, e.PrintJSON(a.document()))
	}
	e.PrintAnswer(a.answer())
	return saving
}

// empty reports whether nothing was seen at all.
func (a *auditAnswer) empty() bool {
	return (a.probe == nil || a.probe.Keys == 0) && a.result.Evidence.From.IsZero()
}

// gather collects the findings of the probe and of the watch.
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
	f := census.Finding{Severity: census.SeverityNote, Kind: "nothing",
		What: "there is no key, and no lock was seen", Advice: "check the database number in --redis"}
	if a.match != "*" {
		f.What, f.Advice = fmt.Sprintf("no key matches %q, and no lock was seen", a.match),
			"check --match, and the database number in --redis"
	}
	return f
}

// sawNothing reports whether the probe read all keys and found none, and the
// watch saw no writer.
func (a *auditAnswer) sawNothing() bool {
	return a.probe != nil && a.probe.Refused == "" && a.probe.Keys == 0 && len(a.result.Evidence.Writers) == 0
}

// bad reports whether a finding is more than a note.
func bad(all []census.Finding) bool {
	return slices.ContainsFunc(all, func(f census.Finding) bool { return f.Severity != census.SeverityNote })
}

// look reads what the flags name: a record, the demo's, or a live server.
func (f *auditFlags) look(e *out.Env, ctx context.Context, a *auditAnswer) error {
	switch {
	case f.demo:
		return f.showDemo(e, a)
	case f.replay != "":
		return f.again(e, a)
	}
	if f.record == "" {
		return f.watch(e, ctx, a, nil)
	}
	// It may hold confidential values, so other users cannot read it.
	record, err := os.OpenFile(f.record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return out.CouldNot(out.WithoutPath(err), "creating --record %s", f.record)
	}
	err = f.watch(e, ctx, a, record)
	if closing := record.Close(); err == nil && closing != nil {
		err = out.CouldNot(out.WithoutPath(closing), "writing --record %s", f.record)
	}
	return err
}

// config returns the configuration that a watch and a replay share.
func (f *auditFlags) config(e *out.Env) audit.Config {
	return audit.Config{Config: census.Config{
		Match: f.match, Dialects: f.dialects, Lease: f.lease, Greatest: f.greatest, Gap: f.gap,
		Behind: f.behind, Ahead: f.ahead, LeaseChecked: f.checked}, Timeout: e.Timeout}
}

func (f *auditFlags) again(e *out.Env, a *auditAnswer) error {
	file, err := os.Open(f.replay)
	if err != nil {
		return out.WrongUse("--replay %s: %w", f.replay, out.WithoutPath(err))
	}
	defer file.Close()
	a.where = "record " + f.replay
	err = f.replayFrom(e, file, a)
	var broken *offset.ObservedError
	switch {
	case errors.As(err, &broken) && a.empty():
		return out.WrongUse("--replay %s: %w", f.replay, err)
	case err != nil:
		return out.CouldNot(err, "reading --replay %s to its end", f.replay)
	}
	return nil
}

// replayFrom audits a record. Of a record that is broken later, the answer has
// what comes before.
func (f *auditFlags) replayFrom(e *out.Env, from io.Reader, a *auditAnswer) error {
	a.replayed = true
	r, err := audit.Replay(from, f.config(e))
	if r != nil {
		a.result = r
	}
	return err
}

func (f *auditFlags) watch(e *out.Env, ctx context.Context, a *auditAnswer, record *os.File) error {
	pool, address, err := f.server.OpenWhole(e, ctx)
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
	cfg.Seen, cfg.SeenEvery = liveLines(e, f.server.Quiet, f.span), out.ProgressEvery
	if record != nil {
		cfg.Record = record
	}
	if f.hash {
		cfg.Hash = []byte(rand.Text())
	}
	r, err := audit.Watch(ctx, pool, cfg)
	if r != nil {
		a.result = r
	}
	var file *os.PathError
	switch {
	case errors.As(err, &file) && file.Path == f.record:
		return out.CouldNot(file.Err, "writing --record %s; it ends with what was seen until then", f.record)
	case err != nil && ctx.Err() == nil:
		return out.CouldNot(err, "watching %s", address)
	case ctx.Err() == nil:
		if away := answers(e, ctx, pool); away != nil && ctx.Err() == nil {
			return out.CouldNot(away, "watching %s to the end; what was seen until then is above", address)
		}
	}
	return nil
}

// answers reports whether the server still answers; an error reply counts as an
// answer. A server that was away when the watch ended was not watched, so no
// findings prove nothing.
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

// probe reads the keys. If the user has no right to do that, audit watches
// nevertheless.
func (f *auditFlags) probe(e *out.Env, ctx context.Context, a *auditAnswer, pool *redis.Pool) error {
	p := e.Progress(f.server.Quiet, "keys looked at", -1)
	defer p.End()
	found, err := probe.Run(ctx, pool,
		probe.Config{Match: f.match, Dialects: f.dialects, Lease: max(f.lease, f.greatest),
			Timeout: e.Timeout, Progress: p.Set, DB: f.server.Database(e)})
	a.probe = found
	switch {
	case ctx.Err() != nil:
		return nil // run reports it at the end
	case err != nil && (found == nil || found.Refused == ""):
		return out.CouldNot(err, "looking at the keys of %s", a.where)
	}
	return nil
}
