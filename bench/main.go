// Command bench compares the locks of this repository with bare redigo and with
// other libraries, one scenario after the other, on a redis-server that it
// starts:
//
//	make bench                                  all of it, in about eleven minutes
//	BENCH_SCENARIO=one-key,killed make bench    some scenarios
//	BENCH_ROUNDS=21 make bench                  more rounds than each scenario's own
//	BENCH_ADAPTER='modern;modern, fair' make bench    only these locks, and the bare commands
//
// It is a module of its own, so that users of the lock do not depend on the
// other libraries. It knows a lock only as an [Adapter]. It promises:
//
//   - Adapters take turns within a round, and each round begins with another
//     adapter.
//   - Every measurement runs in new processes.
//   - Ratios compare figures of the same round.
//
// It does not promise that a figure means anything elsewhere: microseconds
// depend on the machine and on its other work. Ratios carry over to other
// machines only if client and server shared one CPU (taskset) that did nothing
// else.
//
// Throughput alone makes barging look like speed. So every scenario with
// waiters also reports the longest wait, how many waiters got nothing, and how
// even the shares were.
//
// It assumes that the processes of a measurement share one wall clock, and that
// nobody sets it meanwhile: gaps between processes are differences of its
// readings. A step of the clock shows as negative gaps, which are counted and
// reported as overlaps.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == child {
		if err := Child(adapters(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	o := options{}
	flag.StringVar(&o.scenario, "scenario", os.Getenv("BENCH_SCENARIO"),
		"measure only these scenarios, separated by commas")
	flag.StringVar(&o.adapter, "adapter", os.Getenv("BENCH_ADAPTER"),
		"measure only these adapters, separated by semicolons, and the bare commands")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds, instead of each scenario's own")
	flag.StringVar(&o.doc, "doc", "", "put the tables into this Markdown file")
	flag.BoolVar(&o.quick, "quick", false, "only check that everything works")
	flag.BoolVar(&o.list, "list", false, "name the scenarios")
	flag.Parse()
	if rounds := os.Getenv("BENCH_ROUNDS"); o.rounds == 0 && rounds != "" {
		if _, err := fmt.Sscan(rounds, &o.rounds); err != nil {
			fmt.Fprintf(os.Stderr, "bench: BENCH_ROUNDS is %q: %v\n", rounds, err)
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// child is the argument with which this program starts itself as a child.
const child = "child"

type options struct {
	scenario, adapter, doc string
	rounds                 int
	quick, list            bool
}

func everyScenario(m *members) []Scenario {
	return slices.Concat(Scenarios(defaults(), tuned()), quorumScenarios(m), fromJava())
}

func everyAdapter() []Adapter {
	return slices.Concat(adapters(), quorumAdapters(), javaAdapters())
}

func (o options) run(ctx context.Context) error {
	var words []string
	if o.scenario != "" {
		words = strings.Split(o.scenario, ",")
	}
	m := &members{}
	defer m.stop()
	scenarios, err := Pick(everyScenario(m), words...)
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range scenarios {
			fmt.Printf("%-16s %s\n", s.Name, s.Title)
		}
		return nil
	}
	if err := o.check(scenarios); err != nil {
		return err
	}
	all, err := PickAdapters(everyAdapter(), o.adapter)
	if err != nil {
		return err
	}
	server, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	begun := time.Now()
	r := Runner{
		Adapters: all, Scenarios: scenarios, Addr: server.addr, Child: []string{self, child},
		Rounds: o.rounds, Quick: o.quick, Progress: progress,
	}
	rep, err := r.Run(ctx)
	if err != nil {
		return err
	}
	words = []string{"every scenario"}
	if o.scenario != "" {
		words = strings.Split(o.scenario, ",")
	}
	about := fmt.Sprintf("%s; %s.", machine(server), strings.Join(words, ", "))
	fmt.Fprintf(os.Stderr, "\r%-70s\r", "")
	fmt.Printf("%s\n\n%s\nIn %v.\n", about, rep.Tables(scenarios), time.Since(begun).Round(time.Second))
	if err := o.write(rep, scenarios, about); err != nil {
		return err
	}
	if len(rep.Failures) > 0 {
		return fmt.Errorf("%d measurements failed; see above", len(rep.Failures))
	}
	return nil
}

func (o options) write(rep *Report, scenarios []Scenario, about string) error {
	if o.doc == "" {
		return nil
	}
	page, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	about = strings.Join(append([]string{about}, rep.Troubles()...), "\n\n")
	updated, err := Page(string(page), about, rep, scenarios)
	if err != nil {
		return fmt.Errorf("%s: %w", o.doc, err)
	}
	return os.WriteFile(o.doc, []byte(updated), 0o644)
}

// check reports a -doc file that has no place for the tables, before minutes
// are spent on measuring.
func (o options) check(scenarios []Scenario) error {
	if o.doc == "" {
		return nil
	}
	page, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	if err := CheckPage(string(page), scenarios); err != nil {
		return fmt.Errorf("%s: %w", o.doc, err)
	}
	return nil
}

// progress shows people how far the run is. If stderr is not a terminal, it
// writes a line now and then.
func progress(done, total int, scenario, adapter string) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r%-70.70s", fmt.Sprintf("%d of %d  %s  %s", done, total, scenario, adapter))
	} else if done%25 == 0 {
		fmt.Fprintf(os.Stderr, "bench: %d of %d, %s\n", done, total, scenario)
	}
}

// machine describes in words where the measurement ran.
func machine(s *server) string {
	cpu := "one CPU for client and server"
	if n := runtime.NumCPU(); n > 1 {
		cpu = fmt.Sprintf("%d CPUs, not pinned: wake-ups decide the latencies", n)
	}
	model := ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = " (" + strings.TrimSpace(value) + ")"
				break
			}
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load of the machine at the end " + strings.Fields(string(text))[0]
	}
	return fmt.Sprintf("%s, %s, %s/%s, %s%s%s", time.Now().UTC().Format("2006-01-02"), s.version,
		runtime.GOOS+" "+runtime.GOARCH, runtime.Version(), cpu, model, load)
}

func lookServer() (string, error) {
	for _, name := range []string{os.Getenv("BENCH_SERVER"), "redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("redis-server is not installed; name one by BENCH_SERVER")
}
