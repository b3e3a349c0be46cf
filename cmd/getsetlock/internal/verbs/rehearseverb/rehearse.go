// Package rehearseverb is the verb rehearse: a rehearsal by package rehearse, and its tables.
package rehearseverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

const rehearseLong = `Lets a fleet of programs sell goods, each of them a client of its own: read the stock
of a product, decide, write it back, under a lock or without one. Half of them are old
clients, which send what the old library sent; half are new. In each half some die while
they hold a lock, one of them in the middle of a deployment of its half. At the end the
goods are counted: exit 0 if nothing was sold that was not there, nobody held a lock
beside another and every order was worked through, else 1.

Without --redis it needs no server and no time: it runs on a server in memory, in virtual
time, in which waits are over when nobody has anything else to do. With --redis the same
happens on a real server in real time, under keys that begin with
getsetlock:rehearsal: (the new clients put a second key beside a lock, in the same slot);
they must not exist before and are deleted at the end. GETSETLOCK_REDIS is not read.

Protocols:
%s
Excused are overlaps that the protocol's rules do not exclude, each with its cause:
--overruns makes old clients hold longer than their lease, which nobody can keep from
deleting the lock of the next when they are done; the new clients are told of it.

--phases takes the whole fleet from old clients to tokens alone, as "getsetlock migrate" does
it, with the real gates: old clients are replaced one by one, programs are restarted and die
in every phase, a job overruns, steps are taken back and forward again, and an operator asks
for the step that shuts old clients out while one still works, which must be refused; one
that was forgotten comes back and has to give up. In memory that takes a day of virtual time.
Exit 0 only if in no phase anybody held beside another where the rules promise that nobody
does, and every gate was shut when it had to be.

--preset gives each machine a clock with an offset, a drift, steps and standstills of its
own; "getsetlock skew --help" lists the presets and their sources. The new clients are told
how far apart such clocks can come in a day and how long the longest standstill is, if any
client can be made that bears it; else they assume what they assume by themselves, and what
comes of it is excused. What a preset does once an hour is seen only in a run of hours:
"clocks" in the answer says what happened.

The seed fixes everything that is drawn. In memory the same seed gives the same answer but
for how long it took here (with --phases but for details: members' names are drawn anew);
on a server messages take what they take.

Orders are a CSV file whose first line names the columns; sku and quantity must be among
them; internal/rehearse/orders-sample.csv among the sources is the list that is built in.
Of each product less is there than is ordered. A distribution is 5s (always),
5s..40s (uniform), exp:10s, lognormal:p50=5s,p99=40s or file:NAME (a duration a line).`

// rehearseFlags are a plan and what the flags say beside it.
type rehearseFlags struct {
	plan    rehearse.Plan
	dialect out.DialectFlags
	server  out.ServerFlags
	orders  string
	phases  bool
	asJSON  bool
}

// New returns the verb rehearse.
func New(e *out.Env) *cobra.Command {
	f := rehearseFlags{plan: rehearse.DefaultPlan()}
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Let old and new clients sell goods together, and count what is left",
		Long:  fmt.Sprintf(rehearseLong, protocolList()),
		Example: out.Examples(
			"getsetlock rehearse",
			"getsetlock rehearse --protocol none          # what happens without a lock",
			"getsetlock rehearse --protocol watch         # without one, but with WATCH, and its price",
			"getsetlock rehearse --orders orders.csv --clients 20 --json",
			"getsetlock rehearse --dialect redis-py --lease 10s --overruns 3",
			"getsetlock rehearse --preset jepsen          # on machines whose clocks are wrong",
			"getsetlock rehearse --phases                 # a migration from its first phase to its last",
			"getsetlock rehearse --redis redis://127.0.0.1:6379",
		),
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(e, cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *rehearseFlags) register(cmd *cobra.Command) {
	p, flags := &f.plan, cmd.Flags()
	flags.StringVar(&p.Protocol, "protocol", p.Protocol, "how programs are kept apart: "+strings.Join(rehearse.Protocols(), ", "))
	out.Complete(cmd, "protocol", out.Choices(rehearse.Protocols()...))
	flags.BoolVar(&f.phases, "phases", false, "go through all phases of a migration, instead of --protocol")
	f.dialect.Register(cmd, "what the old clients write (default jedis)")
	flags.IntVar(&p.Clients, "clients", p.Clients, "how many programs take part")
	flags.StringVar(&f.orders, "orders", "", "CSV file of orders (default: a list that is built in)")
	flags.IntVar(&p.Acquisitions, "acquisitions", p.Acquisitions, "how many orders are worked through, the list being begun anew as often as needed; with --redis by default 1000")
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "what the random choices are drawn from")
	flags.DurationVar(&p.Lease, "lease", 0, "the old clients' lease (default: their dialect's own; with --redis 5s)")
	flags.DurationVar(&p.Poll, "poll", 0, "how often a held key is asked for (default: the dialect's own)")
	flags.DurationVar(&p.Spread, "spread", 0, "how far the programs' clocks are apart; the new clients are told of it")
	flags.StringVar(&p.Preset, "preset", "", "what ails the machines' clocks, and when they stand still, instead of --spread: "+strings.Join(machinePresets(), ", "))
	out.Complete(cmd, "preset", out.Choices(machinePresets()...))
	flags.Var(&p.Latency, "latency", "how long a message takes one way, a distribution; not with --redis, where messages take what they take")
	flags.Var(&p.Job, "job", "how long a program thinks between reading and writing, a distribution")
	flags.IntVar(&p.Crashes, "crashes", p.Crashes, "how many holders of each kind die")
	flags.IntVar(&p.Overruns, "overruns", 0, "how many jobs of old clients outlast their lease")
	flags.StringVar(&f.server.Redis, "redis", "", "rehearse on this server, in real time: redis://[user:password@]host:port/db, rediss:// (TLS), unix:///path, redis+sentinel://host,host/master")
	flags.StringVar(&f.server.CACert, "cacert", "", "file of PEM certificates by which rediss:// is checked instead of the system's")
	out.Complete(cmd, "redis", cobra.NoFileCompletions)
	f.server.QuietFlag(cmd)
	out.JSONFlag(cmd, &f.asJSON)
}

func protocolList() string {
	var b strings.Builder
	for _, name := range rehearse.Protocols() {
		fmt.Fprintf(&b, "  %-8s%s\n", name, rehearse.About(name))
	}
	return b.String()
}

func (f *rehearseFlags) run(e *out.Env, cmd *cobra.Command) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	bar := e.Progress(f.server.Quiet, "rehearsing", int64(f.plan.Acquisitions))
	res, err := f.rehearse(e, cmd.Context(), func(at rehearse.Progress) { bar.Set(int64(at.Done)) })
	bar.End()
	if err != nil {
		return err
	}
	if f.asJSON {
		err = e.PrintJSON(res)
	} else {
		printRehearsal(e, res)
	}
	if err == nil && !res.OK {
		return out.Exit(out.CodeBad)
	}
	return err
}

// complete makes a plan of the flags.
func (f *rehearseFlags) complete(cmd *cobra.Command) error {
	p, given := &f.plan, cmd.Flags().Changed
	var err error
	if p.Dialect, err = f.dialect.Pick(); err != nil {
		return err
	}
	if f.phases {
		if given("protocol") {
			return out.WrongUse("--phases goes through all protocols of a migration: it takes no --protocol")
		}
		p.Move()
	}
	if given("orders") {
		if p.Orders, err = readOrders(f.orders); err != nil {
			return out.WrongUse("--orders %s: %w", f.orders, err)
		}
		if !given("acquisitions") {
			p.Acquisitions = max(p.Acquisitions, len(p.Orders))
		}
	}
	if err := f.place(given); err != nil {
		return err
	}
	for _, flag := range []string{"lease", "poll"} {
		if v, _ := cmd.Flags().GetDuration(flag); given(flag) && v <= 0 {
			return out.WrongUse("--%s %v: it must be above zero", flag, v)
		}
	}
	if err := p.Validate(); err != nil {
		return out.WrongUse("%w", err)
	}
	return nil
}

// place settles on which server the rehearsal happens.
func (f *rehearseFlags) place(given func(flag string) bool) error {
	switch {
	case !given("redis") && given("cacert"):
		return out.WrongUse("--cacert is for the server of --redis")
	case !given("redis"):
		return nil
	case given("latency"):
		return out.WrongUse("--latency is for the server in memory; the one of --redis has its own")
	case f.server.Redis == "":
		return out.WrongUse("--redis names no server")
	}
	f.plan.ForServer(given)
	return nil
}

func readOrders(name string) ([]rehearse.Order, error) {
	file, err := os.Open(name)
	if err != nil {
		// The path stands before it already.
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, err
	}
	defer file.Close()
	return rehearse.ReadOrders(file)
}

func (f *rehearseFlags) rehearse(e *out.Env, ctx context.Context, progress func(rehearse.Progress)) (*rehearse.Result, error) {
	if f.server.Redis == "" {
		child, err := rehearseSelf()
		if err != nil {
			return nil, out.CouldNot(err, "finding this program's own file")
		}
		res, err := rehearse.Embedded(ctx, f.plan, child, progress)
		if err != nil {
			return nil, out.CouldNot(err, "rehearsing in memory")
		}
		return res, nil
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	res, err := rehearse.OnServer(ctx, f.plan, rehearse.Server{Name: address, Dial: pool.DialContext}, progress)
	if err != nil {
		return nil, out.CouldNot(err, "rehearsing on %s", address)
	}
	return res, nil
}

// rehearseSelf is the command that makes this program the child of a rehearsal. Tests put their own
// in its place.
var rehearseSelf = func() ([]string, error) {
	file, err := os.Executable()
	return []string{file, rehearseChildVerb}, err
}

const rehearseChildVerb = "rehearse-in-memory"

// NewChild is what a rehearsal in memory starts; nobody else has any use for it.
func NewChild(e *out.Env) *cobra.Command {
	return &cobra.Command{
		Use:    rehearseChildVerb,
		Short:  "The process in which a rehearsal without a server runs; rehearse starts it",
		Long:   "Rehearse starts this and talks to it. It reads a plan from its standard input and is of no use by hand.",
		Hidden: true,
		Args:   out.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rehearse.Child(e.Stdin, e.Stdout)
			return nil
		},
	}
}

// machinePresets are those that afflict clients' machines; a rehearsal's server is right.
func machinePresets() []string {
	var names []string
	for _, p := range simulate.Presets() {
		if !p.Clocks.Server.Any() {
			names = append(names, p.Name)
		}
	}
	return names
}
