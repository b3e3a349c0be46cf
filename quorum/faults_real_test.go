//go:build real

package quorum_test

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// faultTTL is the TTL under faults. Each clock steps once, and by less than the
// time for which a server that restarted does not vote: a fencing number that
// such a server forgot is not drawn again.
const (
	faultTTL  = time.Second
	faultStep = 1200 * time.Millisecond
)

var faultTurns = flag.Int("faults", 1, "how many times each fault comes in TestFaultsUpToTheBoundKeepOneHolder")

// nemesis causes one fault after the other.
type nemesis struct {
	t     *testing.T
	rng   *rand.Rand
	nodes []*node
	own   *history.Contender // takes the key for the faults that need to know its holder
}

// some returns so many random nodes.
func (n *nemesis) some(count int) (some []*node) {
	for _, i := range n.rng.Perm(len(n.nodes))[:count] {
		some = append(some, n.nodes[i])
	}
	return some
}

func (n *nemesis) harms() map[string]func() {
	all := n.serverHarms()
	maps.Copy(all, n.networkHarms())
	all["votes lost"] = func() { n.upToTheBound(loseVote) }
	all["clocks stepped"] = func() {
		n.upToTheBound(func(one *node, token string) {
			if one.ahead > time.Hour {
				loseVote(one, token)
				return
			}
			one.step(faultStep)
		})
	}
	return all
}

func (n *nemesis) serverHarms() map[string]func() {
	frozen := func(count int, d time.Duration) func() {
		return func() {
			for _, one := range n.some(count) {
				one.Pause()
				defer one.Continue()
			}
			<-time.After(d)
		}
	}
	restarted := func(count int) func() {
		return func() {
			for _, one := range n.some(count) {
				one.Restart()
			}
		}
	}
	return map[string]func(){
		"one restarted":      restarted(1),
		"majority restarted": restarted(3),
		"two killed": func() {
			some := n.some(2)
			for _, one := range some {
				one.Kill()
			}
			<-time.After(faultTTL / 2)
			for _, one := range some {
				one.Start()
			}
		},
		"two frozen":      frozen(2, 2*faultTTL),
		"majority frozen": frozen(3, faultTTL),
	}
}

func (n *nemesis) networkHarms() map[string]func() {
	return map[string]func(){
		"two cut off": func() {
			some := n.some(2)
			for _, one := range some {
				one.wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence},
					redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Silence})
			}
			<-time.After(2 * faultTTL)
			for _, one := range some {
				one.wire.Calm()
				one.wire.Cut()
			}
		},
		"connections cut": func() {
			for _, one := range n.some(3) {
				one.wire.Cut()
			}
		},
		"late commands": func() {
			gate := redistest.NewGate()
			for _, one := range n.some(2) {
				one.wire.Fault(redistest.Rule{Times: 2, Do: redistest.HoldRequest(gate)})
			}
			<-time.After(time.Duration(n.rng.IntN(600)) * time.Millisecond)
			gate.Open()
		},
		"replies lost": func() {
			for _, one := range n.some(3) {
				one.wire.Fault(redistest.Rule{Nth: 1 + n.rng.IntN(3), Times: 2, Do: redistest.CutAfter})
			}
		},
	}
}

// loseVote deletes the vote for a token.
func loseVote(one *node, token string) {
	one.Do("EVAL", `if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end`, 1,
		history.Key, token)
}

// upToTheBound takes the key, waits for all votes and ends as many of them
// early as the law allows. Only members that voted for this lease are harmed,
// so no other client has a vote there.
func (n *nemesis) upToTheBound(harm func(one *node, token string)) {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	asked := history.Now()
	l, err := n.own.Client.Acquire(ctx, history.Key)
	if err != nil {
		n.t.Errorf("the key could not be taken between faults: %v", err)
		return
	}
	var after time.Time
	n.own.Hold(l, asked, func(int) <-chan time.Time {
		switch voted := votes(n.nodes, l.Key(), l.Token()); {
		case !after.IsZero() && time.Now().After(after):
			return nil
		case after.IsZero() && len(voted) == len(n.nodes) && l.Err() == nil:
			for _, i := range n.rng.Perm(len(voted))[:len(n.nodes)/2] {
				if time.Until(l.Until()) > faultTTL/4 {
					harm(voted[i], l.Token())
				}
			}
			after = time.Now().Add(faultTTL)
		}
		return time.After(20 * time.Millisecond)
	})
	if after.IsZero() {
		n.t.Logf("  nothing ended early: the lease was lost before it had all votes: %v", l.Err())
	}
}

func (n *nemesis) run(turns int) {
	harms := n.harms()
	var names []string
	for name := range harms {
		for range turns {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	n.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		n.t.Log(name)
		harms[name]()
		<-time.After(time.Duration(100+n.rng.IntN(200)) * time.Millisecond)
		for _, one := range n.nodes {
			one.wire.Calm()
		}
	}
}

// Servers restart empty and from AOF, freeze, are cut off, forget votes and
// step their clocks. -args -faults 20 makes it longer.
func TestFaultsUpToTheBoundKeepOneHolder(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contendUnderFaults(t, fences, *faultTurns)
		})
	}
}

func contendUnderFaults(t *testing.T, fences bool, turns int) {
	nodes := startNodes(t, 5, func(i int) redistest.Options { return redistest.Options{Persist: i%2 == 1} })
	seed := history.Seed(t)
	s := setup{
		member: modern.Config{Timeout: 300 * time.Millisecond},
		quorum: quorum.Config{GreatestTTL: faultTTL, Fences: fences},
		lock:   lock.Config{TTL: faultTTL, Margin: faultTTL / 5, ReleaseWait: 500 * time.Millisecond},
	}
	var h history.Steps
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var work sync.WaitGroup
	contender := func(id int, c *lock.Client) *history.Contender {
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		return &history.Contender{Client: c, ID: id, Rand: rng, Note: h.Note}
	}
	for i := range 3 { // processes with two goroutines each
		c := s.client(t, nodes)
		for g := range 2 {
			one := contender(2*i+g, c)
			work.Go(func() { one.Run(ctx) })
		}
	}
	n := &nemesis{t: t, rng: rand.New(rand.NewPCG(seed, 1000)), nodes: nodes,
		own: contender(50, s.client(t, nodes))}
	n.run(turns)
	h.GoesOn(t)
	cancel()
	work.Wait()
	t.Logf("%d leases, %d looks", h.Count(history.Acquired), h.Count(history.Trusted))
	h.Check(t, history.Lock)
}
