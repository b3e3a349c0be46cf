// Command bench compares the locks of this repository with those of other
// libraries, on a redis-server that it starts:
//
//	make bench                                  all of it, in about eight minutes
//	BENCH_SCENARIO=one-key,killed make bench    some scenarios
//	BENCH_ROUNDS=21 make bench                  more rounds than each scenario's own
//	BENCH_ADAPTER='modern;modern, fair' make bench    only these locks, and the bare commands
//
// Package internal/bench says what a measurement promises and what it does not.
// The command is a separate module, so that users of the lock do not depend on
// the other libraries. It assumes that nothing else runs on its CPU: with
// taskset it should have one for itself.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/bench"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == child {
		if err := bench.Child(adapters(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	o := options{}
	flag.StringVar(&o.scenario, "scenario", os.Getenv("BENCH_SCENARIO"), "measure only these scenarios, separated by commas")
	flag.StringVar(&o.adapter, "adapter", os.Getenv("BENCH_ADAPTER"), "measure only these adapters, separated by semicolons, and the bare commands")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds, instead of each scenario's own")
	flag.StringVar(&o.json, "json", "", "write the rows to this file too")
	flag.StringVar(&o.doc, "doc", "", "put the tables between the marks of this Markdown file")
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
	scenario, adapter, json, doc string
	rounds                       int
	quick, list                  bool
}

func (o options) run(ctx context.Context) error {
	var words []string
	if o.scenario != "" {
		words = strings.Split(o.scenario, ",")
	}
	scenarios, err := bench.Pick(append(bench.Scenarios(defaults(), tuned()), fromJava()...), words...)
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range scenarios {
			fmt.Printf("%-16s %s\n", s.Name, s.Title)
		}
		return nil
	}
	all, err := bench.PickAdapters(append(adapters(), javaAdapters()...), o.adapter)
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
	r := bench.Runner{
		Adapters: all, Scenarios: scenarios, Redis: "redis://" + server.addr, Prefix: "bench:",
		Child: []string{self, child}, Rounds: o.rounds, Quick: o.quick, Alone: true, Progress: progress,
	}
	rep, err := r.Run(ctx)
	if err != nil {
		return err
	}
	words = []string{"every scenario"}
	if o.scenario != "" {
		words = strings.Split(o.scenario, ",")
	}
	text := fmt.Sprintf("%s; %s.\n\n%s", machine(server), strings.Join(words, ", "), rep.Tables(scenarios))
	fmt.Fprintf(os.Stderr, "\r%-70s\r", "")
	fmt.Printf("%s\nIn %v.\n", text, time.Since(begun).Round(time.Second))
	if err := o.write(rep, text); err != nil {
		return err
	}
	if len(rep.Failures) > 0 {
		return fmt.Errorf("%d measurements failed; see above", len(rep.Failures))
	}
	return nil
}

func (o options) write(rep *bench.Report, text string) error {
	if o.json != "" {
		rows, err := json.MarshalIndent(map[string]any{"schema": "getsetlock.bench/1", "rows": rep.Rows}, "", " ")
		if err == nil {
			err = os.WriteFile(o.json, append(rows, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if o.doc == "" {
		return nil
	}
	old, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	updated, err := between(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.doc, err)
	}
	return os.WriteFile(o.doc, []byte(updated), 0o644)
}

// The marks around the tables in a document.
const (
	docBegin = "<!-- tables: make bench-doc -->\n"
	docEnd   = "<!-- end of tables -->\n"
)

func between(old, text string) (string, error) {
	before, rest, ok := strings.Cut(old, docBegin)
	_, after, ended := strings.Cut(rest, docEnd)
	if !ok || !ended {
		return "", fmt.Errorf("it has no lines %q and %q", strings.TrimSpace(docBegin), strings.TrimSpace(docEnd))
	}
	return before + docBegin + "\n" + strings.TrimSpace(text) + "\n\n" + docEnd + after, nil
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
	return fmt.Sprintf("%s, %s, %s/%s, %s%s%s", time.Now().UTC().Format("2006-01-02"), s.version, runtime.GOOS+" "+runtime.GOARCH, runtime.Version(), cpu, model, load)
}

func lookServer() (string, error) {
	for _, name := range []string{os.Getenv("BENCH_SERVER"), "redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("redis-server is not installed; name one by BENCH_SERVER")
}
