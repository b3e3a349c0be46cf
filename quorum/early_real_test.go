//go:build real

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
	"github.com/getsetlock/getsetlock/skew/votes"
)

// earlyTTL is longer than the test.
const earlyTTL = 5 * time.Minute

// early are the ways in which a vote ends before its TTL although its server
// votes on.
var early = map[string]func(t *testing.T, n *node){
	"lost":          func(_ *testing.T, n *node) { n.Do("FLUSHALL") },
	"clock stepped": func(_ *testing.T, n *node) { n.step(earlyTTL + time.Second) },
	// A server that restarts from AOF has every vote, and one that restarts
	// empty votes too if its clock is set forward by enough meanwhile: its age
	// is a difference of wall clocks.
	"restarted empty, clock stepped": func(t *testing.T, n *node) {
		n.Restart()
		n.step(time.Hour)
		n.awaitAge(t, time.Hour)
	},
}

// Each case stands at the bound of the law, or one vote beyond it.
func TestTwoHoldOnlyBeyondTheLawsBound(t *testing.T) {
	const n, majority = 5, 3
	for how, end := range early {
		for held := majority; held <= n; held++ {
			if held < n && how != "lost" {
				continue
			}
			for _, beyond := range []bool{false, true} {
				ended := bound(t, n, held)
				if beyond {
					ended++
				}
				t.Run(fmt.Sprintf("%s/%d votes, %d end early", how, held, ended), func(t *testing.T) {
					t.Parallel()
					holdTwice(t, held, ended, end, beyond)
				})
			}
		}
	}
}

// bound returns how many votes of a holder may end early without that two hold.
func bound(t *testing.T, members, held int) int {
	t.Helper()
	v, err := votes.Law{Members: members, Votes: held}.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	return v.Survives
}

// holdTwice lets a client take so many votes and ends some of them early. Then
// a second client, which reaches every server, tries.
func holdTwice(t *testing.T, count, ended int, end func(*testing.T, *node), both bool) {
	nodes := startNodes(t, 5, nil)
	var h []history.Step
	contender := func(id int, c *lock.Client) *history.Contender {
		return &history.Contender{Client: c, ID: id, Note: func(s history.Step) { h = append(h, s) }}
	}
	// The first client notices nothing: it neither renews nor watches.
	s := setup{member: modern.Config{Wake: lock.WakeOff}, linger: true,
		quorum: quorum.Config{GreatestTTL: earlyTTL, Fences: true},
		lock:   lock.Config{TTL: earlyTTL, RenewEvery: -1}}
	apart := s
	apart.pools = func(i int, n *node) *redis.Pool {
		if i < count {
			return n.wire.Pool()
		}
		return n.Wire(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse}).Pool()
	}
	first, second := contender(1, apart.client(t, nodes)), contender(2, s.client(t, nodes))
	from := history.Now()
	holder, err := first.Client.TryAcquire(context.Background(), history.Key)
	if err != nil {
		t.Fatalf("the first client: %v", err)
	}
	awaitAllVotes(t, nodes[:count], holder)
	for _, n := range nodes[:ended] {
		end(t, n)
	}
	asked := history.Now()
	other, err := second.Client.TryAcquire(context.Background(), history.Key)
	switch {
	case !both && !errors.Is(err, lock.ErrHeld):
		t.Fatalf("the second client: %v; it should be refused", err)
	case !both:
		release(t, holder)
		return
	case err != nil:
		t.Fatalf("the second client: %v; the law says that it gets the key", err)
	}
	// Both look, and neither finds its lease lost.
	second.Hold(other, asked, func(look int) <-chan time.Time {
		if look > 0 {
			return nil
		}
		first.Hold(holder, from, onceAt(time.Now()))
		return at(time.Now())
	})
	if porcupine.CheckOperations(history.Lock, history.Operations(h)) {
		t.Errorf("a lock explains these steps, but two clients held: %v", h)
	}
	one, _ := holder.Fence()
	two, _ := other.Fence()
	if one >= two {
		t.Errorf("a store cannot refuse the first holder's late writes: its number is %d, the second one's %d",
			one, two)
	}
}

// Three of five servers restart empty while a client holds. They could give
// their votes away once more, and do not: another client gets no majority.
func TestServersThatRestartedEmptyDoNotVote(t *testing.T) {
	nodes := startNodes(t, 5, nil)
	s := setup{member: modern.Config{Wake: lock.WakeOff}, quorum: quorum.Config{GreatestTTL: earlyTTL},
		lock: lock.Config{TTL: earlyTTL, RenewEvery: -1}}
	holder, err := s.client(t, nodes).TryAcquire(context.Background(), history.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	awaitAllVotes(t, nodes, holder)
	for _, n := range nodes[:3] {
		n.Restart()
	}
	other, err := s.client(t, nodes).TryAcquire(context.Background(), history.Key)
	if err == nil {
		defer release(t, other)
	}
	if err == nil || holder.Err() != nil {
		t.Fatalf("three servers forgot their votes: the second client got %v, the first one's lease has %v", err,
			holder.Err())
	}
	for _, n := range nodes[:3] {
		if v := n.value(history.Key); v != "" {
			t.Errorf("a server that restarted has the vote %q", v)
		}
	}
	if err := holder.Release(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release: %v; only two votes were left", err)
	}
}

// at returns a channel that has a value.
func at(now time.Time) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- now
	return c
}

func onceAt(now time.Time) func(look int) <-chan time.Time {
	return func(look int) <-chan time.Time {
		if look > 0 {
			return nil
		}
		return at(now)
	}
}

// awaitAllVotes waits until the lease's token is on every node: the votes past
// a majority are taken in the background.
func awaitAllVotes(t *testing.T, nodes []*node, l *lock.Lease) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); len(voted(nodes, l.Key(), l.Token())) < len(nodes); {
		if time.Now().After(end) {
			t.Fatalf("the lease has %d of %d votes", len(voted(nodes, l.Key(), l.Token())), len(nodes))
		}
		<-time.After(5 * time.Millisecond)
	}
}

func release(t *testing.T, l *lock.Lease) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Errorf("Release: %v", err)
	}
}
