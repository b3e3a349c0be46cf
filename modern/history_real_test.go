//go:build real

package modern_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// lockState is the state that must explain one key's history: the holder, and
// the last fencing number.
type lockState struct {
	holder int
	fence  int64
}

const nobody = -1

// lockModel states that leases on a key exclude each other and that their
// fencing numbers increase. Each step took effect at some instant between its
// two clock readings.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{holder: nobody} },
	Step: func(state, input, _ any) (bool, any) {
		s, do := state.(lockState), input.(step)
		switch do.Kind {
		case "acquired":
			numbered := do.Fence > s.fence || do.Fence == 0 // 0 in forms without numbers
			return s.holder == nobody && numbered, lockState{do.Client, do.Fence}
		case "trusted":
			return s.holder == do.Client, s
		}
		return s.holder == do.Client, lockState{nobody, s.fence}
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(step)
		return fmt.Sprintf("%s by %d (fence %d)", s.Kind, s.Client, s.Fence)
	},
}

// history collects the steps of all contenders.
type history struct {
	mu    sync.Mutex
	steps []step
}

func (h *history) note(s step) {
	h.mu.Lock()
	h.steps = append(h.steps, s)
	h.mu.Unlock()
}

func (h *history) count(kind string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.steps {
		if s.Kind == kind {
			n++
		}
	}
	return n
}

// goesOn waits until another contender gets the key.
func (h *history) goesOn(t *testing.T) {
	t.Helper()
	deadline := time.After(redistest.Patience)
	for before := h.count("acquired"); h.count("acquired") < before+2; {
		select {
		case <-deadline:
			t.Error("after the last fault no contender got the key")
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (h *history) check(t *testing.T, model porcupine.Model) {
	t.Helper()
	var ops []porcupine.Operation
	for _, s := range h.steps {
		ops = append(ops, porcupine.Operation{ClientId: s.Client % 100, Input: s, Call: s.From, Return: s.To})
	}
	result := porcupine.CheckOperationsTimeout(model, ops, 5*time.Minute)
	if result == porcupine.Ok {
		return
	}
	slices.SortFunc(h.steps, func(a, b step) int { return cmp.Compare(a.From, b.From) })
	for _, s := range h.steps {
		t.Logf("%d–%d µs: client %d %s, fence %d", (s.From-h.steps[0].From)/1000, (s.To-h.steps[0].From)/1000,
			s.Client, s.Kind, s.Fence)
	}
	t.Errorf("the history cannot be explained by a lock: %s", result)
}

// seed is drawn anew for each run, or taken from $SEED to draw the same faults
// and pauses again.
func seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := rand.Uint64()
	t.Logf("SEED=%d", n)
	return n
}

// nemesis causes one fault after the other, in random order.
type nemesis struct {
	t      *testing.T
	rng    *rand.Rand
	server *redistest.Server
	wire   *redistest.Wire
	child  *process
}

func (n *nemesis) harms() map[string]func() {
	long := 2 * contendedTTL
	rule := func(do redistest.Action) func() {
		return func() {
			n.wire.Fault(
				redistest.Rule{Nth: 1 + n.rng.IntN(5), Times: 1 + n.rng.IntN(3), Do: do})
		}
	}
	return map[string]func(){
		"cut before the command": rule(redistest.CutBefore),
		"cut after the command":  rule(redistest.CutAfter),
		"cut within the reply":   rule(redistest.CutWithin),
		"cut after the reply":    rule(redistest.CutReplied),
		"cut all":                n.wire.Cut,
		"silence":                rule(redistest.Silence),
		"silent network": func() { // for the contenders on the wire; the other process has its own
			n.wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence},
				redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Silence})
			<-time.After(long)
		},
		"slow replies": func() {
			gate := redistest.NewGate()
			n.wire.Fault(redistest.Rule{Times: 3, Do: redistest.HoldReply(gate)})
			<-time.After(time.Duration(n.rng.IntN(400)) * time.Millisecond)
			gate.Open()
		},
		"late commands": func() {
			gate := redistest.NewGate()
			n.wire.Fault(redistest.Rule{Times: 2, Do: redistest.HoldRequest(gate)})
			<-time.After(time.Duration(n.rng.IntN(600)) * time.Millisecond)
			gate.Open()
		},
		"scripts forgotten": func() { n.server.Do("SCRIPT", "FLUSH") },
		"server restarted":  n.server.Restart,
		"server paused":     func() { n.server.Pause(); <-time.After(long); n.server.Continue() },
		"client stopped": func() {
			n.child.signal(n.t, syscall.SIGSTOP)
			<-time.After(long)
			n.child.signal(n.t, syscall.SIGCONT)
		},
	}
}

func (n *nemesis) run() {
	harms := n.harms()
	var names []string
	for name := range harms {
		names = append(names, name)
	}
	slices.Sort(names)
	n.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		n.t.Log(name)
		harms[name]()
		<-time.After(time.Duration(100+n.rng.IntN(300)) * time.Millisecond)
		n.wire.Calm()
	}
}

func TestHistoriesUnderFaultsFitALock(t *testing.T) {
	for name, cfg := range map[string]modern.Config{
		"plain": {}, "fence": {Fence: true}, "fair": {Fair: true, Fence: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Timeout = 300 * time.Millisecond
			s := redistest.Real(t, redistest.Options{Persist: true})
			contendUnderFaults(t, s, seed(t), cfg)
		})
	}
}

func contendUnderFaults(t *testing.T, s *redistest.Server, seed uint64, backend modern.Config) {
	var h history
	wire := s.Wire()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	var clients []*lock.Client
	var wg sync.WaitGroup
	for i := range 3 { // processes with two goroutines each, one of them with hand-overs
		b, err := modern.New(wire.Pool(), backend)
		if err != nil {
			t.Fatal(err)
		}
		cfg := contenderConfig()
		if i > 0 {
			cfg.HandOvers, cfg.LocalHandOvers = -1, -1
		}
		c, err := lock.New(b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		for g := range 2 {
			id := 2*i + g
			one := &contender{client: c, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), note: h.note}
			wg.Go(func() { one.run(ctx) })
		}
	}
	child := startContender(t, s.Addr(), seed, backend, func(st step) { st.Client = 99; h.note(st) })
	n := &nemesis{t: t, rng: rand.New(rand.NewPCG(seed, 1000)), server: s, wire: wire, child: child}
	n.run()
	h.goesOn(t)
	cancel()
	wg.Wait()
	child.end(t)
	for _, c := range clients {
		if err := c.Close(bg); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d leases, %d looks", h.count("acquired"), h.count("trusted"))
	h.check(t, lockModel)
	emptied(t, s)
}

// emptied waits until the remaining keys have ended by themselves, at most as
// long as a lease and the keys of a queue live. Those last for 20 s after the
// last try.
func emptied(t *testing.T, s *redistest.Server) {
	t.Helper()
	deadline := time.After(contendedTTL + 25*time.Second)
	for {
		var left []string
		for _, key := range redistest.Keys(t, s.Pool()) {
			if key != "gsl:fence:" {
				left = append(left, key)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Errorf("keys left: %q", left)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestModelRefusesHistoriesThatNoLockHas shows that the check of histories can
// fail.
func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	for name, steps := range map[string][]step{
		"two holders": {{0, "acquired", 0, 10, 1}, {1, "acquired", 20, 30, 2},
			{0, "trusted", 40, 50, 0}},
		"same number": {{0, "acquired", 0, 10, 1}, {0, "ended", 20, 30, 0}, {1, "acquired", 40, 50, 1}},
		"trusted too long": {{0, "acquired", 0, 10, 1}, {0, "ended", 15, 60, 0}, {1, "acquired", 20, 30, 2},
			{0, "trusted", 40, 50, 0}},
	} {
		var ops []porcupine.Operation
		for _, s := range steps {
			ops = append(ops, porcupine.Operation{ClientId: s.Client, Input: s, Call: s.From, Return: s.To})
		}
		if porcupine.CheckOperations(lockModel, ops) {
			t.Errorf("%s: explained", name)
		}
	}
}
