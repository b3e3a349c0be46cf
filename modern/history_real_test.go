// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

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
			contendUnderFaults(t, s, history.Seed(t), cfg)
		})
	}
}

func contendUnderFaults(t *testing.T, s *redistest.Server, seed uint64, backend modern.Config) {
	var h history.Steps
	wire := s.Wire()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	var clients []*lock.Client
	var wg sync.WaitGroup
	for i := range 3 { // processes with two goroutines each, one of them with hand-overs
		b := openOn(t, wire.Pool(), backend)
		cfg := contenderConfig()
		if i > 0 {
			cfg.LocalHandOvers = -1
		}
		c, err := lock.New(b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		for g := range 2 {
			id := 2*i + g
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			one := &history.Contender{Client: c, ID: id, Rand: rng, Note: h.Note}
			wg.Go(func() { one.Run(ctx) })
		}
	}
	child := startContender(t, s.Addr(), seed, backend, func(st history.Step) { st.Client = 99; h.Note(st) })
	n := &nemesis{t: t, rng: rand.New(rand.NewPCG(seed, 1000)), server: s, wire: wire, child: child}
	n.run()
	h.GoesOn(t, "the last fault")
	cancel()
	wg.Wait()
	child.end(t)
	for _, c := range clients {
		if err := c.Close(bg); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d leases, %d looks", h.Count(history.Acquired), h.Count(history.Trusted))
	h.Check(t, history.Lock)
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
			if !strings.HasPrefix(key, "gsl:fence:") {
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
