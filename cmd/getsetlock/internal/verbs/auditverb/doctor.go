// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/doctor"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
	"github.com/getsetlock/getsetlock/internal/cluster"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// doctorLong is what --help says.
//
//go:embed doctor.txt
var doctorLong string

type doctorFlags struct {
	server  out.ServerFlags
	dialect out.DialectFlags
	match   string
	terms   dialect.Terms // claims about the old clients
	watch   time.Duration
	fix     bool
	yes     bool
	asJSON  bool
}

// NewDoctor returns the verb doctor.
func NewDoctor(e *out.Env) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a server and its old locks, and free dead ones",
		Long:  doctorLong,
		Example: out.Examples(
			"getsetlock doctor --match 'lock:*'",
			"getsetlock doctor --match 'lock:*' --dialect jedis --lease 60s --fix",
			"# NTP keeps all clocks within a second, the server's too",
			"getsetlock doctor --match 'lock:*' --dialect jedis --behind 1s --fix",
			"getsetlock doctor --watch 10s --json | jq '.findings[].what'",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.complete(e, cmd)
			if err != nil {
				return err
			}
			return f.run(e, cmd.Context(), cfg)
		},
	}
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "what the old clients write (default: detected)")
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "*", "only keys of this pattern; quote it, or the shell expands it")
	out.PositiveVar(flags, &f.terms.Lease, "lease", 0, "leave the flag out where the lease is unknown",
		"the old clients' shortest lease (default: unknown)")
	out.PositiveVar(flags, &f.terms.Greatest, "greatest", 0, "leave the flag out for the value of --lease",
		"the old clients' longest lease (default: --lease)")
	out.ClaimVar(flags, &f.terms.Spread, "spread",
		"largest difference between two old clients' clocks (default the lesser of 1s and a 20th of the lease; more where --watch sees more)")
	out.ClaimVar(flags, &f.terms.Behind, "behind",
		"how far the slowest old client's clock is at most behind the server's (default $"+out.EnvBehind+
			", else unknown: --fix then looks twice)")
	out.ClaimVar(flags, &f.terms.Ahead, "ahead",
		"how far the fastest old client's clock is at most ahead of the server's (default $"+out.EnvAhead+
			", else unknown: no time is shortened)")
	out.ClaimVar(flags, &f.terms.Gap, "gap",
		"with --watch the longest time that an old client's attempt takes, pauses included (default the lesser of 1s and a 20th of the lease)")
	flags.DurationVar(&f.watch, "watch", 0, "listen to all commands for this long before the examination")
	flags.BoolVar(&f.fix, "fix", false, "free dead locks and shorten times far ahead, after asking")
	flags.BoolVar(&f.yes, "yes", false, "--fix without asking")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// complete checks the flags against each other and returns the configuration.
func (f *doctorFlags) complete(e *out.Env, cmd *cobra.Command) (doctor.Config, error) {
	cfg := doctor.Config{Match: f.match, DB: f.server.Database(e), Timeout: e.Timeout, Remember: f.fix,
		Clock: e.Clock}
	err := cmp.Or(out.ClaimsOfEnvironment(e, &f.terms.Behind, &f.terms.Ahead),
		leasesFit(f.terms.Lease, f.terms.Greatest),
		f.contradictions(e, cmd.Flags().Changed))
	if err != nil {
		return cfg, err
	}
	cfg.Lease, cfg.Greatest, cfg.Spread = f.terms.Lease, f.terms.Greatest, f.terms.Spread
	cfg.Behind, cfg.Ahead = f.terms.Behind, f.terms.Ahead
	cfg.Dialects, err = f.dialect.Named()
	return cfg, err
}

// contradictions refuses flags that contradict each other.
func (f *doctorFlags) contradictions(e *out.Env, given func(flag string) bool) error {
	switch {
	case f.watch < 0:
		return out.WrongUse("--watch %v: it must not be negative", f.watch)
	case given("gap") && f.watch == 0:
		return out.WrongUse("--gap is for --watch, which is not given")
	case f.match == "":
		return out.WrongUse("--match is empty; '*' matches every key")
	case f.fix && f.match == "*":
		return out.WrongUse("--fix needs --match: without a pattern a lock cannot be told from a time that another program stores")
	case f.yes && !f.fix:
		return out.WrongUse("--yes is for --fix, which is not given")
	case f.fix && !f.yes && !e.Interactive():
		return out.WrongUse("standard input is no terminal, so doctor cannot ask: read what it says without --fix, then give --fix --yes")
	}
	return nil
}

func (f *doctorFlags) run(e *out.Env, ctx context.Context, cfg doctor.Config) error {
	pool, address, d, err := f.examine(e, ctx, cfg)
	if pool != nil {
		defer pool.Close()
	}
	switch {
	case d == nil:
		return err
	case err != nil && len(d.Complaints) == 0:
		return out.CouldNot(err, "examining %s", address)
	}
	fixed := map[string]doctor.FixOutcome{}
	failed := err
	if !f.asJSON {
		e.PrintAnswer(diagnosisOf(address, d))
	}
	if f.fix && failed == nil {
		failed = f.treat(e, ctx, pool, d, fixed)
	}
	if f.asJSON {
		if err := e.PrintJSON(diagnosisFound(d, fixed)); err != nil {
			return err
		}
	}
	var said *out.ExitError
	switch {
	case errors.As(failed, &said):
		return failed
	case failed != nil:
		return out.CouldNot(failed, "examining %s to the end; what was seen until then is above", address)
	case slices.ContainsFunc(d.Complaints,
		func(c doctor.Complaint) bool { return c.Severity != census.SeverityNote }):
		return out.Exit(out.CodeBad)
	}
	return nil
}

// examine examines the server, after watching it, or all primaries of a
// cluster, which has no pool. Without a Diagnosis, the error says what was
// tried.
func (f *doctorFlags) examine(e *out.Env, ctx context.Context, cfg doctor.Config) (pool *redis.Pool,
	address string, d *doctor.Diagnosis, err error) {
	nodes, address, err := f.server.Nodes(e)
	if err != nil {
		return nil, "", nil, err
	}
	// A cluster is only looked at. For --fix and --watch, it is refused.
	whole := len(nodes.Seeds) > 0 && !f.fix && f.watch == 0
	if !whole {
		if pool, address, err = f.server.OpenWhole(e, ctx); err != nil {
			return nil, "", nil, err
		}
		if err := f.listen(e, ctx, pool, address, &cfg); err != nil {
			return pool, address, nil, err
		}
	}
	p := e.Progress(f.server.Quiet, "keys looked at", -1)
	defer p.End()
	cfg.Progress = p.Set
	if !whole {
		d, err = doctor.Examine(ctx, pool, cfg)
		return pool, address, d, err
	}
	table := cluster.Looking(nodes.Seeds, nodes.Pool)
	defer table.Close()
	primaries, err := table.Primaries(ctx)
	if err != nil {
		return nil, "", nil, out.CouldNot(err, "examining %s", address)
	}
	d, err = doctor.ExamineCluster(ctx, primaries, nodes.Pool, cfg)
	return nil, address, d, err
}

// watched says what the watch knows of the fleet. It has a smallest lease and a
// gap even where none is given, so that it always finds how far clocks
// are behind at least. If the true lease is smaller, that is too much, and a
// true claim is refuted. That deletes nothing.
func (f *doctorFlags) watched(cfg *doctor.Config) census.Config {
	c := census.Config{Match: f.match, Dialects: cfg.Dialects, Lease: cfg.Lease, LeaseChecked: true,
		Greatest: cfg.Greatest, Gap: f.terms.Gap, Spread: cfg.Spread, Behind: cfg.Behind, Ahead: cfg.Ahead,
		DB: cfg.DB}
	if len(c.Dialects) > 0 && c.Lease == 0 {
		c.Lease = c.Dialects[0].Lease
		if c.Greatest > 0 {
			c.Lease = min(c.Lease, c.Greatest)
		}
	}
	if c.Gap == 0 {
		c.Gap = time.Second
		if c.Lease > 0 {
			c.Gap = min(c.Gap, c.Lease/20)
		}
	}
	return c
}

// listen watches the fleet before the examination. With --fix it first
// remembers a look at each key, so that the watch counts towards the time for
// which the bytes must have been there.
func (f *doctorFlags) listen(e *out.Env, ctx context.Context, pool *redis.Pool, address string,
	cfg *doctor.Config) error {
	if f.watch == 0 {
		return nil
	}
	if f.fix {
		if _, err := doctor.Examine(ctx, pool, *cfg); err != nil {
			return out.CouldNot(err, "examining %s", address)
		}
	}
	r, err := audit.Watch(ctx, pool, audit.Config{
		Config:    f.watched(cfg),
		For:       f.watch,
		Timeout:   e.Timeout,
		Monitor:   audit.MonitorConfig{On: true},
		Seen:      liveLines(e, f.server.Quiet, f.watch),
		SeenEvery: out.ProgressEvery,
	})
	switch {
	case ctx.Err() != nil:
		return out.CouldNot(context.Cause(ctx), "watching %s", address)
	case err != nil:
		return out.CouldNot(err, "watching %s", address)
	}
	cfg.Evidence = &r.Evidence
	if s := r.Evidence.Spread; s.Apart > 0 {
		e.Say(f.server.Quiet, "the clock spread is at least %v; an upper bound is unknown",
			s.Apart.Round(time.Millisecond))
	}
	return nil
}

// mostShown is how many fixes are named before doctor asks.
const mostShown = 1000

// treat asks, and then applies the fixes. It stores each outcome in fixed, by
// key.
func (f *doctorFlags) treat(e *out.Env, ctx context.Context, pool *redis.Pool, d *doctor.Diagnosis,
	fixed map[string]doctor.FixOutcome) error {
	fixes := d.Fixes
	if len(fixes) == 0 {
		e.Say(f.server.Quiet, "there is nothing to fix")
		return nil
	}
	to := e.Stdout
	if f.asJSON || !f.yes {
		to = e.Stderr // stdout gets only the JSON document, and a question is not an answer
	}
	fmt.Fprintln(to, "\nTo do:")
	for i, fix := range fixes {
		if i == mostShown {
			fmt.Fprintf(to, "  and %d more like these\n", len(fixes)-i)
			break
		}
		fmt.Fprintln(to, "  "+out.OneLine(fix.String()))
	}
	if !f.yes {
		fmt.Fprint(to, "Do it? [y/N] ")
		yes, err := e.Confirm(ctx)
		if err != nil {
			return err
		}
		if !yes {
			return &out.ExitError{Code: out.CodeBad, Err: errors.New("nothing was changed")}
		}
	}
	if f.asJSON {
		to = e.Stderr
	} else {
		to = e.Stdout
	}
	words := map[doctor.FixOutcome]string{
		doctor.FixDone: "done", doctor.FixChanged: "left alone: the value has changed, or is gone",
		doctor.FixOurs: "left alone: a getsetlock client's token is on the second key now",
	}
	err := doctor.Apply(ctx, pool, fixes, func(fix doctor.Fix, o doctor.FixOutcome) {
		fixed[fix.Key] = o
		fmt.Fprintf(to, "%s: %s\n", out.Escaped(fix.Key), words[o])
	})
	if err != nil {
		return out.CouldNot(err, "applying the fixes (%d of %d were tried)", len(fixed), len(fixes))
	}
	return nil
}

// diagnosisOf returns the answer for people.
func diagnosisOf(address string, d *doctor.Diagnosis) report.Page {
	p := report.Page{Title: "examination of " + address}
	for _, fact := range d.Facts {
		p.Words = append(p.Words, "  "+fact)
	}
	p.Words = append(p.Words, "  "+out.Count(d.Keys, "key")+" looked at")
	var all []census.Finding
	for _, c := range d.Complaints {
		all = append(all, c.Finding)
	}
	p.Causes, p.Verdict = causesOf(all), verdictOf(all, "", "")
	if d.More > 0 {
		p.Verdict += fmt.Sprintf(" There are %d more findings about keys.", d.More)
	}
	return p
}

// causesOf returns findings each of which is its own cause.
func causesOf(all []census.Finding) (causes []report.Cause) {
	for _, f := range all {
		c := report.Cause{Level: level(f), Says: []string{aboutKey(f) + f.What}}
		if f.Advice != "" {
			c.Do = []string{f.Advice}
		}
		causes = append(causes, c)
	}
	return causes
}

// DoctorDocument is the answer of doctor as --json prints it.
type DoctorDocument struct {
	Schema string `json:"schema"`
	Keys   int64  `json:"keys"` // number of keys that were looked at
	More   int64  `json:"more"` // number of findings about keys beyond the first thousand
	// number of fixes, those of findings that are not listed included; at most
	// 100,000 in one call
	Fixes    int                `json:"fixes"`
	Fixed    int                `json:"fixed"` // number of fixes whose outcome is done
	Findings []doctor.Complaint `json:"findings"`
}

func diagnosisFound(d *doctor.Diagnosis, fixed map[string]doctor.FixOutcome) DoctorDocument {
	doc := DoctorDocument{Schema: "getsetlock.doctor/1", Keys: d.Keys, More: d.More, Fixes: len(d.Fixes),
		Findings: d.Complaints}
	for _, outcome := range fixed {
		if outcome == doctor.FixDone {
			doc.Fixed++
		}
	}
	for _, c := range d.Complaints {
		if c.Fix != nil {
			c.Fix.Outcome = fixed[c.Fix.Key]
		}
	}
	return doc
}

// leasesFit checks --lease and --greatest, which audit and doctor share.
func leasesFit(lease, greatest time.Duration) error {
	switch {
	case lease > dialect.LongestStamp:
		return out.WrongUse("--lease %v: it must be at most %v", lease, dialect.LongestStamp)
	case greatest > dialect.LongestStamp:
		return out.WrongUse("--greatest %v: it must be at most %v", greatest, dialect.LongestStamp)
	case greatest > 0 && greatest < lease:
		return out.WrongUse("--greatest %v is less than --lease %v", greatest, lease)
	}
	return nil
}
