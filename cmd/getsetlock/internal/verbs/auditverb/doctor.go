package auditverb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

const doctorLong = `Examines a server and the old locks on it: dead locks that nobody has taken over, stamps
far in the future from a wrong clock, locks that a fast clock already takes for expired,
values that no client can read; and the settings that matter to locks: eviction,
persistence, replicas, scripting, tracking, and the rights of this user. Each in a
sentence, with what to do.

What the server can do is tried, not read off its version, in ways that change nothing.

With --fix it deletes dead locks, and moves stamps far ahead so that a living holder
keeps a whole lease. It shows what it would do and asks before. Each change is made in
one step on the server only if the value is still the one that was looked at and no
token of ours stands beside it; else the key is left alone, and that is said. Since
without a pattern a lock can't be told from a time that another program keeps, --fix
needs --match.

A stamp that the server's clock has passed is not yet a dead lock: old clients may have
clocks that are behind the server's, and their holder lives. --behind says how far the
slowest is behind, and then the stamp decides. Without it --fix remembers on the server
which bytes it saw (a hash named {KEY}:gsl:look), says how long to wait, and deletes
them at a later call if they still stand there, for which it must know the greatest
lease (--lease or --greatest). A value that old clients read during --watch and let
stand is never deleted. A stamp far ahead is moved only if --ahead says how far the
fastest clock is ahead of the server's.

--watch listens to all commands for so long before (MONITOR, in bursts), and measures
how far the clocks are apart, which locks are ghosts, and which old clients find live.
Without it --spread says how far the clocks are apart, or what is usual is assumed.

Exit codes: 0 nothing is wrong; 1 something is, or was before --fix; 2 wrong use; 3 it
could not be done.`

type doctorFlags struct {
	server  out.ServerFlags
	dialect out.DialectFlags
	match   string
	terms   dialect.Terms // what is claimed of the old clients
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
		Short: "Examine a server and its old locks, and free the dead ones",
		Long:  doctorLong,
		Example: out.Examples(
			"getsetlock doctor --match 'lock:*'",
			"getsetlock doctor --match 'lock:*' --dialect jedis --lease 60s --fix",
			"getsetlock doctor --match 'lock:*' --dialect jedis --behind 1s --fix   # clocks kept by NTP",
			"getsetlock doctor --match 'lock:*' --watch 10s --json | jq '.findings[].what'",
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
	f.dialect.Register(cmd, "what the old clients speak (default: found out)")
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "*", "only keys of this pattern; quote it so that the shell leaves it alone")
	out.PositiveVar(flags, &f.terms.Lease, "lease", 0, "leave the flag out where the lease is unknown", "the old clients' smallest lease (default: unknown)")
	out.PositiveVar(flags, &f.terms.Greatest, "greatest", 0, "leave the flag out for the value of --lease", "the old clients' greatest lease (default: --lease)")
	out.ClaimVar(flags, &f.terms.Spread, "spread", "how far the old clients' clocks are apart at most (default: assumed; more where --watch sees more)")
	out.ClaimVar(flags, &f.terms.Behind, "behind", "how far the slowest old client's clock is behind the server's at most (default $"+out.EnvBehind+", else unknown: --fix then looks twice)")
	out.ClaimVar(flags, &f.terms.Ahead, "ahead", "how far the fastest old client's clock is ahead of the server's at most (default $"+out.EnvAhead+", else unknown: no stamp is moved)")
	flags.DurationVar(&f.watch, "watch", 0, "listen to all commands for so long before")
	flags.BoolVar(&f.fix, "fix", false, "do what can be done about it, after asking")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// complete checks what the flags say together and makes a configuration of them.
func (f *doctorFlags) complete(e *out.Env, cmd *cobra.Command) (audit.DoctorConfig, error) {
	cfg := audit.DoctorConfig{Match: f.match, DB: f.server.Database(e), Timeout: e.Timeout, Remember: f.fix, Clock: e.Clock}
	err := cmp.Or(out.ClaimsOfEnvironment(e, &f.terms.Behind, &f.terms.Ahead), leasesFit(f.terms.Lease, f.terms.Greatest),
		f.contradictions(e, cmd.Flags().Changed))
	if err != nil {
		return cfg, err
	}
	cfg.Lease, cfg.Greatest, cfg.Spread = f.terms.Lease, f.terms.Greatest, f.terms.Spread
	cfg.Behind, cfg.Ahead = f.terms.Behind, f.terms.Ahead
	if f.dialect.Name != "" || f.dialect.File != "" {
		d, err := f.dialect.Pick()
		if err != nil {
			return cfg, err
		}
		cfg.Dialects = []dialect.Dialect{d}
	}
	return cfg, nil
}

// contradictions refuses flags that cannot be meant together.
func (f *doctorFlags) contradictions(e *out.Env, given func(flag string) bool) error {
	switch {
	case f.watch < 0:
		return out.WrongUse("--watch %v: it must not be negative", f.watch)
	case given("spread") && f.watch > 0:
		return out.WrongUse("--spread and --watch both say how far the clocks are apart: give one")
	case f.match == "":
		return out.WrongUse("--match is empty; '*' matches every key")
	case f.fix && f.match == "*":
		return out.WrongUse("--fix needs --match: without a pattern a lock can't be told from a time that another program keeps")
	case f.yes && !f.fix:
		return out.WrongUse("--yes is for --fix, which is not given")
	case f.fix && !f.yes && !e.Interactive():
		return out.WrongUse("standard input is no terminal, so you cannot be asked: look at what doctor says without --fix, then give --fix --yes")
	}
	return nil
}

func (f *doctorFlags) run(e *out.Env, ctx context.Context, cfg audit.DoctorConfig) error {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := f.listen(e, ctx, pool, address, &cfg); err != nil {
		return err
	}
	p := e.Progress(f.server.Quiet, "keys looked at", -1)
	cfg.Progress = p.Set
	d, err := audit.Doctor(ctx, pool, cfg)
	p.End()
	if err != nil && len(d.Complaints) == 0 {
		return out.CouldNot(err, "examining %s", address)
	}
	fixed := map[string]audit.FixOutcome{}
	failed := err
	if !f.asJSON {
		printDiagnosis(e, address, d)
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
	case slices.ContainsFunc(d.Complaints, func(c audit.Complaint) bool { return c.Severity != census.SeverityNote }):
		return out.Exit(out.CodeBad)
	}
	return nil
}

// listen measures the fleet's clocks before. With --fix a first look is
// remembered before the watch, which then counts towards the time that bytes must
// have stood there.
func (f *doctorFlags) listen(e *out.Env, ctx context.Context, pool *redis.Pool, address string, cfg *audit.DoctorConfig) error {
	if f.watch == 0 {
		return nil
	}
	if f.fix {
		if _, err := audit.Doctor(ctx, pool, *cfg); err != nil {
			return out.CouldNot(err, "examining %s", address)
		}
	}
	view := newLiveView(e, f.server.Quiet, f.watch)
	r, err := audit.Watch(ctx, pool, audit.Config{
		Config:    census.Config{Match: f.match, Dialects: cfg.Dialects, Lease: cfg.Lease, Greatest: cfg.Greatest, Spread: cfg.Spread, Behind: cfg.Behind, Ahead: cfg.Ahead, DB: cfg.DB},
		For:       f.watch,
		Timeout:   e.Timeout,
		Monitor:   audit.MonitorConfig{On: true},
		Seen:      view.show,
		SeenEvery: view.every(),
	})
	view.end()
	switch {
	case ctx.Err() != nil:
		return out.CouldNot(context.Cause(ctx), "watching %s", address)
	case err != nil:
		return out.CouldNot(err, "watching %s", address)
	}
	cfg.Evidence = &r.Evidence
	if s := r.Evidence.Spread; !s.Sound() && s.Apart > 0 {
		e.Say(f.server.Quiet, "the clocks are at least %v apart; an upper bound is unknown", s.Apart.Round(time.Millisecond))
	}
	return nil
}

// treat asks and does what can be done.
func (f *doctorFlags) treat(e *out.Env, ctx context.Context, pool *redis.Pool, d *audit.Diagnosis, fixed map[string]audit.FixOutcome) error {
	var fixes []audit.Fix
	for _, c := range d.Complaints {
		if c.Fix != nil {
			fixes = append(fixes, *c.Fix)
		}
	}
	if len(fixes) == 0 {
		e.Say(f.server.Quiet, "there is nothing that --fix could do")
		return nil
	}
	to := e.Stdout
	if f.asJSON || !f.yes {
		to = e.Stderr // the document stands alone, and a question is no answer
	}
	fmt.Fprintln(to, "\nTo be done:")
	for _, fix := range fixes {
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
	words := map[audit.FixOutcome]string{
		audit.FixDone: "done", audit.FixChanged: "left alone: it holds another value by now, or none", audit.FixOurs: "left alone: a token of ours stands beside it by now",
	}
	err := audit.ApplyFixes(ctx, pool, fixes, func(fix audit.Fix, o audit.FixOutcome) {
		fixed[fix.Key] = o
		fmt.Fprintf(to, "%s: %s\n", out.Escaped(fix.Key), words[o])
	})
	if err != nil {
		return out.CouldNot(err, "fixing; %d of %d were tried before", len(fixed), len(fixes))
	}
	return nil
}

func printDiagnosis(e *out.Env, address string, d *audit.Diagnosis) {
	w := e.Stdout
	fmt.Fprintln(w, "examination of "+address)
	for _, fact := range d.Facts {
		fmt.Fprintln(w, "  "+out.OneLine(fact))
	}
	fmt.Fprintf(w, "  %s looked at\n", countOf(int(d.Keys), "key"))
	if len(d.Complaints) == 0 {
		fmt.Fprintln(w, "\nWELL: nothing is wrong with what was seen.")
	}
	for _, c := range d.Complaints {
		fmt.Fprintln(w)
		printFinding(w, c.Finding)
	}
	if d.More > 0 {
		fmt.Fprintf(w, "\nand %d more about keys\n", d.More)
	}
}

// DoctorDocument is the answer as --json prints it.
type DoctorDocument struct {
	Schema   string          `json:"schema"`
	Keys     int64           `json:"keys"`
	More     int64           `json:"more"` // findings about keys beyond those listed
	Findings []doctorFinding `json:"findings"`
}

type doctorFinding struct {
	Severity string     `json:"severity"`
	Kind     string     `json:"kind"`
	Key      *string    `json:"key"`
	What     string     `json:"what"`
	Advice   string     `json:"advice"`
	Fix      *doctorFix `json:"fix"`
	// Wait: after this the same call can have a fix, if nothing changes.
	Wait *json.Number `json:"wait_ms"`
}

type doctorFix struct {
	Does    string  `json:"does"`    // delete or shorten
	Value   string  `json:"value"`   // that must still stand there
	Outcome *string `json:"outcome"` // done, changed, ours; null: not tried
}

func diagnosisFound(d *audit.Diagnosis, fixed map[string]audit.FixOutcome) DoctorDocument {
	doc := DoctorDocument{Schema: "getsetlock.doctor/1", Keys: d.Keys, More: d.More, Findings: []doctorFinding{}}
	for _, c := range d.Complaints {
		f := doctorFinding{Severity: string(c.Severity), Kind: c.Kind, Key: orNull(out.Escaped(c.Key)), What: c.What, Advice: c.Advice}
		if c.Fix != nil {
			f.Fix = &doctorFix{Does: string(c.Fix.Do), Value: out.Escaped(c.Fix.Value), Outcome: orNull(string(fixed[c.Fix.Key]))}
		}
		if c.Wait > 0 {
			f.Wait = new(out.Millis(c.Wait))
		}
		doc.Findings = append(doc.Findings, f)
	}
	return doc
}

// leasesFit checks the two leases that audit and doctor are told.
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
