// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// votesAfter asks all members each second until a majority votes, and returns
// how long that took.
func (c *client) votesAfter() time.Duration {
	from := time.Now()
	for quorum.Short("k", c.Check(bg)) != nil && time.Since(from) < 10*time.Minute {
		time.Sleep(time.Second)
	}
	return time.Since(from)
}

func (c *client) refused(want string) error {
	c.w.Helper()
	g, err := c.try()
	if err == nil || !strings.Contains(err.Error(), want) {
		c.w.Errorf("an attempt: %v, %v; it should be refused, and say %q", g, err, want)
	}
	c.w.settle()
	return err
}

// TestNewServersAreWatchedForLong: nobody knows which TTLs they have forgotten.
// From then on they vote for every client at once.
func TestNewServersAreWatchedForLong(t *testing.T) {
	unseated(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		var short *quorum.ShortError
		err := c.refused("0 of 3 members vote, and a lock needs 2")
		if !errors.As(err, &short) || !short.Passing() {
			t.Error(err)
		}
		if took := c.votesAfter(); took < 2*time.Minute || took > 2*time.Minute+5*time.Second {
			t.Errorf("they voted after %v", took)
		}
		w.free(c.take())
		w.free(w.open(quorum.Config{}).take())
	})
}

// A set of servers is founded only when all of them have answered: the one that
// did not may be of another set.
func TestQuorumIsFoundedByAllItsServers(t *testing.T) {
	unseated(t, "abcde", func(w *world) {
		one := w.over(quorum.Config{}, modern.Config{}, 0, 1, 2)
		one.votesAfter()
		w.free(one.take())
		other := w.over(quorum.Config{}, modern.Config{}, 2, 3, 4)
		other.away(2)
		if took := other.votesAfter(); took < 10*time.Minute {
			t.Errorf("(c, d, e) found a majority next to (a, b, c) after %v", took)
		}
		other.refused("until every server of the quorum has answered once")
		other.back(2)
		other.votesAfter()
		err := other.refused(`c: its record gsl:quorum is of another quorum: the members are "a b c" there, and "c d e" here`)
		var passing interface{ Passing() bool }
		if !errors.As(err, &passing) || passing.Passing() {
			t.Errorf("an Acquire would go on after %v", err)
		}
	})
}

// What was watched before one of the servers has answered does not count: until
// then it may be in an older quorum that holds leases.
func TestWatchingBeginsWhenAllHaveAnswered(t *testing.T) {
	unseated(t, "abc", func(w *world) {
		c := w.open(quorum.Config{Clock: &suspended{virtual: virtual{lock.Machine}, booted: time.Now()}})
		c.away(2)
		c.votesAfter()
		c.back(2)
		if took := c.votesAfter(); took < 2*time.Minute {
			t.Errorf("they voted %v after the last of them had answered", took)
		}
	})
}

// Each client of these has something that differs from the servers' record.
func TestClientOfAnotherQuorumIsRefused(t *testing.T) {
	for says, cfg := range map[string]quorum.Config{
		"the greatest TTL in ms is 30000 there, and 90000 here": {GreatestTTL: 90 * time.Second},
		"the epoch is 2 there, and 1 here":                      {Epoch: 1},
	} {
		bubble(t, "abc", func(w *world) {
			w.servers[2].Mini.HSet("gsl:quorum", "epoch", "2")
			if cfg.Epoch == 0 {
				w.seat(2)
			}
			c := w.open(cfg)
			c.Check(bg) // an attempt need not wait for the last server
			c.refused(says)
		})
	}
}

// TestOneServerHasOneVote: two names lead to one server.
func TestOneServerHasOneVote(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		w.servers[1] = w.servers[0]
		other := w.open(quorum.Config{})
		other.Check(bg)
		other.refused(`b: its record gsl:quorum is of another quorum: the server is "a" there, and "b" here`)
		w.free(g)
	})
}

// Two databases of one server have two records, and one run.
func TestTwoDatabasesOfAServerAreRefused(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		w.servers[1].Info(map[string]string{"run_id": "a-0"})
		c := w.open(quorum.Config{})
		c.Check(bg)
		c.refused("is the same server as")
	})
}

// A client that was refused stays so while the server that refused is away.
func TestRefusalLastsWhileItsServerIsAway(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{GreatestTTL: 90 * time.Second})
		const says = "the greatest TTL in ms is 30000 there, and 90000 here"
		c.Check(bg)
		c.refused(says)
		for i := range w.names {
			c.away(i)
		}
		pass(2 * time.Second)
		c.Check(bg)
		c.refused(says)
	})
}

// A renewal does not reach another server than the one that voted.
func TestRenewalElsewhereIsNoRenewal(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		w.drop(1)
		w.servers[1].Mini.HSet("gsl:quorum", "name", "a") // b now leads to a's server
		w.servers[1].Mini.Set("k", g.Token())
		c.wires[1].Cut()
		synctest.Wait()
		c.away(2)
		if _, err := g.Extend(bg, ttl); err == nil {
			t.Error("one server renewed two votes")
		}
	})
}

// TestServersThatLoseVotesAreRefused goes through what INFO can say.
func TestServersThatLoseVotesAreRefused(t *testing.T) {
	for _, c := range []struct {
		want string
		says []string
	}{
		{"node of a cluster", []string{"redis_mode", "cluster"}},
		{"sentinel", []string{"redis_mode", "sentinel"}},
		{"a proxy", []string{"run_id", ""}},
		{"is a replica", []string{"role", "slave"}},
		{"has replicas", []string{"connected_slaves", "1"}},
		{"was a replica", []string{"second_repl_offset", "4711"}},
		{"may evict", []string{"maxmemory", "1000", "maxmemory_policy", "volatile-lru"}},
		{"does not say whether it evicts", []string{"maxmemory_policy", ""}},
	} {
		bubble(t, "abc", func(w *world) {
			w.says(0, c.says...)
			b := w.open(quorum.Config{})
			w.free(b.take()) // the others are a majority
			s := b.Standings()[0]
			if s.Err == nil || !s.Refused || !strings.Contains(s.Err.Error(), c.want) {
				t.Errorf("%v; it should say %q", s.Err, c.want)
			}
			w.says(1, c.says...)
			b.wires[1].Cut()
			synctest.Wait()
			b.refused(c.want)
		})
	}
}

// A caller that stops waiting says nothing about a member: why it stopped is no
// reason for another caller.
func TestCallerThatStopsWaitingIsNoReason(t *testing.T) {
	errElsewhere := errors.New("another caller had enough")
	for _, asks := range []string{"INFO", "PING"} {
		bubble(t, "abc", func(w *world) {
			c := w.open(quorum.Config{})
			w.free(c.take())
			gate := redistest.NewGate()
			for _, wire := range c.wires {
				wire.Fault(redistest.Rule{Command: asks, Times: -1, Do: redistest.HoldRequest(gate)})
			}
			pass(20 * time.Second) // the record is to be read again
			ctx, cancel := context.WithTimeoutCause(bg, time.Second, errElsewhere)
			defer cancel()
			c.Check(ctx)
			for _, s := range c.Standings() {
				if s.Err != nil {
					t.Errorf("%s: %s does not vote: %v", asks, s.Member, s.Err)
				}
			}
			gate.Open()
			w.settle()
		})
	}
}

// A server that restarted may have forgotten its votes. It votes when its run
// was watched for the greatest TTL, also if its keys survived.
func TestRestartedMemberDoesNotVote(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		bubble(t, "abc", func(w *world) {
			holder := w.open(quorum.Config{})
			g := holder.take()
			w.drop(1) // the holder has a and c
			w.restart(2, keeps)
			w.servers[2].Mini.Del("k") // its file was older
			other := w.open(quorum.Config{})
			if _, err := other.try(); err == nil {
				t.Error("two hold: a restarted server gave its vote away again")
			}
			from := time.Now()
			for other.Check(bg)[2].Err != nil && time.Since(from) < time.Hour {
				time.Sleep(time.Second)
			}
			if took := time.Since(from); took < greatest || took > greatest+5*time.Second {
				t.Errorf("it voted after %v", took)
			}
			_ = g.Release(bg)
		})
	}
}

// A wall clock that NTP steps at boot does not make a server older.
func TestStepOfAServersClockIsNoWatching(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		w.free(c.take())
		w.restart(2, false)
		c.Check(bg)
		w.servers[2].StepServer(time.Hour)
		w.says(2, "uptime_in_seconds", "3600")
		time.Sleep(2 * time.Second)
		if s := c.Check(bg)[2]; s.Err == nil || s.VotesAt.IsZero() {
			t.Errorf("after a step it votes: %+v", s)
		}
	})
}

// Clients share what they watched: none of these lives for the greatest TTL.
// Two that watch at the same time count once.
func TestClientsWatchARunTogether(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		w.restart(2, false)
		from := time.Now()
		voted := func() bool {
			one, two := w.open(quorum.Config{}), w.open(quorum.Config{})
			for range 8 {
				one.Check(bg)
				two.Check(bg)
				time.Sleep(time.Second)
			}
			return two.Check(bg)[2].Err == nil
		}
		for !voted() && time.Since(from) < 10*time.Minute {
		}
		if took := time.Since(from); took < greatest || took > 2*greatest {
			t.Errorf("it voted after %v", took)
		}
	})
}

// All servers forgot everything, and the first client to come has a smaller
// greatest TTL. It must not hold while one does that came before.
func TestEmptyServersOutwaitEveryTTL(t *testing.T) {
	unseated(t, "abc", func(w *world) {
		c := w.open(quorum.Config{GreatestTTL: time.Second})
		c.votesAfter()
		for i := range w.names {
			w.restart(i, false)
		}
		other := w.open(quorum.Config{GreatestTTL: 2 * time.Second})
		if took := other.votesAfter(); took < 2*time.Minute {
			t.Errorf("they voted after %v: a lease of %v may still be held", took, quorum.LongestTTL)
		}
	})
}

// TestEpochChangesTheQuorum: (a, b, c) becomes (a, b, d). Nobody holds before
// every lease of the old quorum is over, and the old clients are refused.
func TestEpochChangesTheQuorum(t *testing.T) {
	unseated(t, "abcd", func(w *world) {
		old := w.over(quorum.Config{}, modern.Config{}, 0, 1, 2)
		old.votesAfter()
		g := old.take()
		fresh := w.over(quorum.Config{Epoch: 1}, modern.Config{}, 0, 1, 3)
		fresh.Check(bg)
		from := time.Now()
		for quorum.Short("k", fresh.Check(bg)) != nil {
			if _, err := fresh.try(); err == nil {
				t.Fatal("it holds at once")
			}
			_, err := g.Extend(bg, ttl) // on connections that were open before
			if since := time.Since(from); err == nil && since > 20*time.Second {
				t.Fatalf("an old lease was renewed %v after the change", since)
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(from); took < 2*time.Minute {
			t.Errorf("the new quorum was founded after %v", took)
		}
		old.refused("the epoch is 1 there, and 0 here")
		if err := fresh.take().Release(bg); err != nil {
			t.Error(err)
		}
	})
}

// suspended is the clock of a machine that was suspended for a while.
type suspended struct {
	virtual
	booted time.Time
	slept  time.Duration
	id     string
}

func (s *suspended) Boot() (id string, up time.Duration) {
	return "boot" + s.id, time.Since(s.booted) + s.slept
}

// TestSuspendedClientLooksAgain: its monotonic clock stood still while another
// epoch began.
func TestSuspendedClientLooksAgain(t *testing.T) {
	unseated(t, "abcd", func(w *world) {
		c := &suspended{virtual: virtual{lock.Machine}, booted: time.Now()}
		old := w.over(quorum.Config{Clock: c}, modern.Config{}, 0, 1, 2)
		old.votesAfter()
		g := old.take()
		w.renew(g) // opens the connections for renewals
		w.over(quorum.Config{Epoch: 1}, modern.Config{}, 0, 1, 3).Check(bg)
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Fatalf("before it was suspended: %v", err)
		}
		c.slept = 15 * time.Second
		if _, err := g.Extend(bg, ttl); err == nil {
			t.Error("an old lease was renewed after 15 s of suspension")
		}
	})
}

// TestProcessesThatTryOnceWatchTogether: cron starts one each minute, on one
// machine, which waits for nothing.
func TestProcessesThatTryOnceWatchTogether(t *testing.T) {
	unseated(t, "abc", func(w *world) {
		booted, tries := time.Now(), 0
		once := func() error {
			c := w.open(quorum.Config{Clock: &suspended{virtual: virtual{lock.Machine}, booted: booted}})
			defer c.Backend.Close()
			g, err := c.try()
			if err == nil {
				err = g.Release(bg)
			}
			return err
		}
		for ; once() != nil && tries < 10; tries++ {
			time.Sleep(time.Minute)
		}
		if tries != 2 {
			t.Errorf("new servers voted at try %d", tries)
		}
		for i := range w.names {
			w.restart(i, true)
		}
		for tries = 0; once() != nil && tries < 10; tries++ {
			time.Sleep(time.Minute)
		}
		if tries != 1 {
			t.Errorf("servers that restarted voted at try %d", tries)
		}
	})
}

// Tries of several machines do not undo what others have watched, nor does a
// client that waits.
func TestTriesOfOtherMachinesDoNotEndAWatch(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		machines := []*suspended{{booted: time.Now(), id: "a"}, {booted: time.Now().Add(-time.Hour), id: "b"}}
		for _, m := range machines {
			m.virtual = virtual{lock.Machine}
		}
		once := func(m *suspended) error {
			c := w.open(quorum.Config{Clock: m})
			defer c.Backend.Close()
			g, err := c.try()
			if err == nil {
				err = g.Release(bg)
			}
			return err
		}
		restart := func() {
			for i := range w.names {
				w.restart(i, true)
			}
		}
		restart()
		from, tries := time.Now(), 0
		for ; once(machines[tries%2]) != nil && tries < 10; tries++ {
			time.Sleep(20 * time.Second)
		}
		if took := time.Since(from); took < greatest || tries > 4 {
			t.Errorf("the servers voted after %v, at try %d", took, tries)
		}
		waits := w.open(quorum.Config{})
		restart()
		from = time.Now()
		for waits.Check(bg)[2].Err != nil && time.Since(from) < time.Hour {
			tries++
			_ = once(&suspended{virtual: virtual{lock.Machine}, booted: from, id: fmt.Sprint(tries)})
			time.Sleep(time.Second)
		}
		if took := time.Since(from); took < greatest || took > greatest+5*time.Second {
			t.Errorf("next to such tries the servers voted after %v", took)
		}
	})
}

// TestQuorumRefusesWhatCannotBe: nothing is sent.
func TestQuorumRefusesWhatCannotBe(t *testing.T) {
	bubble(t, "abcd", func(w *world) {
		member := func(i int, cfg modern.Config) quorum.Member {
			m, err := modern.New(w.servers[i].Pool(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			return m
		}
		a, b, c, d := member(0, modern.Config{Name: "a"}), member(1, modern.Config{Name: "b"}),
			member(2, modern.Config{Name: "c"}), member(3, modern.Config{Name: "d"})
		refuses := func(says string, cfg quorum.Config, members ...quorum.Member) {
			t.Helper()
			if _, err := quorum.New(members, cfg); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("New: %v; it should say %q", err, says)
			}
		}
		var plain quorum.Config
		refuses("at least three servers", plain, a, b)
		refuses("no more servers may be away than", plain, a, b, c, d)
		refuses("is named twice", plain, a, b, a)
		refuses("member 1 is nil", plain, a, nil, c)
		refuses("has no name", plain, a, b, member(2, modern.Config{}))
		refuses("neither Config.Fair nor", plain, a, b, member(2, modern.Config{Name: "f", Fair: true}))
		refuses("1m30s at most", quorum.Config{GreatestTTL: time.Hour}, a, b, c)
		refuses("Epoch is -1", quorum.Config{Epoch: -1}, a, b, c)
		q := w.over(quorum.Config{}, modern.Config{}, 0, 1, 2)
		if _, err := q.Contract().Try(bg, "k", 31*time.Second); err == nil {
			t.Error("a TTL beyond the greatest was taken")
		}
		fits := q.Contract().(backend.Advisor)
		if fits.Fits(31*time.Second, 0, 0) == nil || fits.Fits(time.Millisecond, 0, 0) == nil ||
			fits.Fits(ttl, 0, 0) != nil {
			t.Error("Fits does not know the bounds")
		}
	})
}
