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

var faultCount = flag.Int("faults", 6, "how many faults TestFaultsUpToTheBoundKeepOneHolder causes")

// nemesis causes one fault after the other.
type nemesis struct {
	t     *testing.T
	rng   *rand.Rand
	nodes []*node

	// own and mute take the key for the faults that need to know its holder.
	// mute is called when its turn comes, but neither renews nor watches its
	// votes, so it notices nothing.
	own, mute *history.Contender

	// rival returns a new client, which knows nothing of the servers.
	rival func() *history.Contender
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
	some := func(harm func(*node, *lock.Lease)) func(*lock.Lease) {
		return func(l *lock.Lease) {
			for _, one := range n.some(bound(n.t, len(n.nodes), len(n.nodes))) {
				harm(one, l)
			}
		}
	}
	all["votes lost"] = func() { n.beside(n.own, some(loseVote)) }
	all["votes lost silently"] = func() { n.beside(n.mute, some(loseVote)) }
	all["clocks stepped"] = func() { n.beside(n.own, some(stepClock)) }
	all["majority restarted empty"] = func() {
		n.beside(n.mute, func(*lock.Lease) {
			var work sync.WaitGroup
			for i := 0; i < len(n.nodes); i += 2 {
				work.Go(n.nodes[i].Restart)
			}
			work.Wait()
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
		"two restarted": restarted(2),
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

// loseVote deletes the vote for a lease.
func loseVote(one *node, l *lock.Lease) {
	one.Do("EVAL", `if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end`, 1,
		l.Key(), l.Token())
}

// stepClock ends a vote by the server's clock, which it steps once at most.
func stepClock(one *node, l *lock.Lease) {
	if one.ahead > time.Hour {
		loseVote(one, l)
		return
	}
	one.step(faultStep)
}

// beside lets harm end votes of one lease.
func (n *nemesis) beside(holder *history.Contender, harm func(*lock.Lease)) {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	for !n.harmed(ctx, holder, harm) {
		if ctx.Err() != nil {
			n.t.Error("no lease between faults had all votes")
			return
		}
	}
}

// harmed takes the key, waits for all votes and lets harm end as many of them
// as the law allows. So no other client has a vote that harm might end. A new
// client, which asks all members, tries to take the key. The lease is kept
// until its votes would have ended by themselves. harmed returns false if the
// lease ended before it had all votes.
func (n *nemesis) harmed(ctx context.Context, holder *history.Contender, harm func(*lock.Lease)) bool {
	asked := history.Now()
	l, err := holder.Client.Acquire(ctx, history.Key)
	if err != nil {
		n.t.Errorf("the key could not be taken between faults: %v", err)
		return true
	}
	var after time.Time
	holder.Hold(l, asked, func(int) <-chan time.Time {
		switch {
		case !after.IsZero() && time.Now().After(after):
			return nil
		case after.IsZero() && len(voted(n.nodes, l.Key(), l.Token())) == len(n.nodes) &&
			time.Until(l.Until()) > faultTTL/4:
			after = time.Now().Add(faultTTL)
			harm(l)
			n.challenge()
		}
		return time.After(20 * time.Millisecond)
	})
	return !after.IsZero()
}

// challenge tries to take the key for half a TTL.
func (n *nemesis) challenge() {
	rival := n.rival()
	for end := time.Now().Add(faultTTL / 2); time.Now().Before(end); {
		asked := history.Now()
		l, err := rival.Client.TryAcquire(context.Background(), history.Key)
		if err == nil {
			rival.Hold(l, asked, onceAt(time.Now()))
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (n *nemesis) run(count int) {
	harms := n.harms()
	names := slices.Sorted(maps.Keys(harms))
	for i := range count {
		if i%len(names) == 0 {
			n.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		name := names[i%len(names)]
		n.t.Log(name)
		harms[name]()
		<-time.After(time.Duration(100+n.rng.IntN(200)) * time.Millisecond)
		for _, one := range n.nodes {
			one.wire.Calm()
		}
	}
}

// Servers restart empty and from AOF, freeze, are cut off, forget votes and
// step their clocks. Each form gets some of these faults; with
// -args -faults 100 it gets each several times.
func TestFaultsUpToTheBoundKeepOneHolder(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contendUnderFaults(t, fences, *faultCount)
		})
	}
}

func contendUnderFaults(t *testing.T, fences bool, faults int) {
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
	rivals := 60
	n.rival = func() *history.Contender {
		rivals++
		return contender(rivals, s.client(t, nodes))
	}
	silent := s
	silent.unwatched, silent.lock.RenewEvery = true, -1
	n.mute = contender(51, silent.client(t, nodes))
	n.run(faults)
	h.GoesOn(t, "the last fault")
	cancel()
	work.Wait()
	t.Logf("%d leases, %d looks", h.Count(history.Acquired), h.Count(history.Trusted))
	h.Check(t, history.Lock)
}
