package benchverb

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/bench"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// The test program also serves as the processes of a measurement.
func init() {
	if len(os.Args) == 2 && os.Args[1] == benchProcessVerb {
		if bench.Child(slices.Concat(bench.Own(), inMemory, bench.Quorum()), os.Stdin, os.Stdout) != nil {
			os.Exit(out.CodeUse)
		}
		os.Exit(out.CodeWell)
	}
}

func TestBenchMeasuresAndLeavesNoKey(t *testing.T) {
	s := clitest.NewStage(t)
	got := s.Run("bench", "--quick", "--scenario", "uncontended,legacy", "--json")
	if got.Code != 0 {
		t.Fatalf("exit %d: %s", got.Code, got.Errors)
	}
	var doc struct {
		Schema string
		Rows   []bench.Row
	}
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"uncontended bare", "uncontended modern", "uncontended modern, fenced",
		"legacy legacy, verbatim", "legacy legacy, hardened"} {
		found := slices.ContainsFunc(doc.Rows, func(r bench.Row) bool {
			return r.Scenario+" "+r.Adapter == want && r.Metric == "us_p50" && r.Value > 0 && r.Ratio != nil
		})
		if !found {
			t.Errorf("no time and ratio of %s", want)
		}
	}
	if doc.Schema != "getsetlock.bench/1" {
		t.Errorf("schema %q", doc.Schema)
	}
	for _, list := range []string{"rows", "failures", "notes"} {
		if strings.Contains(got.Out, `"`+list+`": null`) {
			t.Errorf("%s is no list", list)
		}
	}
	redistest.NoKeys(t, s.World.Pool())
}

func TestBenchMeasuresAQuorum(t *testing.T) {
	s, on := clitest.Quorum(t, 3)
	got := s.Run("bench", "--quorum", "--quick", "--scenario", "uncontended", "--json")
	var doc struct{ Rows []bench.Row }
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != 0 {
		t.Fatalf("exit %d, %v: %s", got.Code, err, got.Errors)
	}
	messages := map[string]float64{}
	for _, r := range doc.Rows {
		if r.Metric == "messages" {
			messages[r.Adapter] = math.Round(r.Value)
		}
		if r.Metric == "us_p50" && r.Ratio == nil {
			t.Errorf("%s: no ratio", r.Adapter)
		}
	}
	// A SET and a deletion on each server; with a number a second round.
	if messages["modern, one server"] != 2 || messages["quorum"] != 6 || messages["quorum, fenced"] < 8 {
		t.Errorf("%v messages", messages)
	}
	for _, w := range on {
		redistest.NoKeys(t, w.Pool())
	}
	on[0].Says("connected_slaves", "1")
	s.Want(s.Run("bench", "--quorum", "--quick"), 3, "", "it has replicas")
}

func TestBenchPrintsATableForEachScenario(t *testing.T) {
	got := clitest.NewStage(t).Run("bench", "--quick", "--quiet", "--scenario", "keys/64")
	for _, want := range []string{"keys/64: 64 goroutines, a key each\n", "ACQUISITIONS/S",
		"\nmodern, fenced "} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %q in\n%s", want, got.Out)
		}
	}
	if got.Code != 0 || got.Errors != "" {
		t.Errorf("exit %d: %s", got.Code, got.Errors)
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	s := clitest.NewStage(t)
	refuses := "redis://" + s.World.Wire(
		redistest.Rule{Command: "SET", Times: -1, Do: redistest.Answer(redistest.NoPerm)}).Listen()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"bench", "--redis", refuses, "--quick", "--scenario", "uncontended"}, 3,
			"uncontended (modern): warming up"},
		{[]string{"bench", "--scenario", "uncontended,etcd"}, 2,
			`no scenario is called "etcd"; there are: uncontended, keys/64`},
		{[]string{"bench", "--rounds", "-1"}, 2, "--rounds is -1"},
		{[]string{"bench", "--quick", "--scenario", "uncontended", "--rounds", "0"}, 2, "--rounds is 0"},
		{[]string{"bench", "--redis", "redis://127.0.0.1:1"}, 3, "measuring on redis://127.0.0.1:1"},
		{[]string{benchProcessVerb}, 2, "started by a benchmark"},
	} {
		got := s.Run(c.args...)
		if got.Code != c.code || !strings.Contains(got.Errors, c.says) {
			t.Errorf("%v: exit %d, %q; want %d, %q", c.args, got.Code, got.Errors, c.code, c.says)
		}
	}
}

// inMemory are adapters of a store that lives in each process.
var inMemory = []bench.Adapter{{Name: "theirs", Open: openMemory}, {Name: "ours", Open: openMemory}}

func openMemory(_ context.Context, s bench.Server) (bench.Locker, error) {
	if s.Target != "mem://ann@here" || s.Access.Password != "word" {
		return nil, fmt.Errorf("opened %q, %+v", s.Target, s.Access)
	}
	client, err := lock.New(locktest.NewStore(lock.Machine).Full(), lock.Config{TTL: s.TTL})
	return memoryLocker{client}, err
}

type memoryLocker struct{ *lock.Client }

func (l memoryLocker) Lock(ctx context.Context, key string) (bench.Held, error) {
	return l.Acquire(ctx, key)
}

func (l memoryLocker) Close() error { return l.Client.Close(context.Background()) }

func TestBenchComparesTheLocksOfAStore(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars = map[string]string{"GETSETLOCK_PASSWORD": "word"}
	clitest.WithMemory(s)
	store := s.Stores["mem"]
	store.Adapters, store.Base = inMemory, "theirs"
	s.Stores["mem"] = store
	got := s.Run("bench", "--target", "mem://ann@here", "--quick", "--scenario", "uncontended", "--json")
	var doc struct{ Rows []bench.Row }
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || got.Code != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	for _, row := range doc.Rows {
		if row.Metric == "messages" {
			t.Errorf("nobody counted messages: %+v", row)
		}
	}
	if !slices.ContainsFunc(doc.Rows, func(r bench.Row) bool {
		return r.Adapter == "ours" && r.Metric == "per_s" && r.Value > 0 && r.Ratio != nil
	}) {
		t.Errorf("no ratio of ours: %+v", doc.Rows)
	}
	s.Want(s.Run("bench", "--target", "mem://ann@here", "--scenario", "leases/100000"), 2, "",
		"no scenario is called")
}
