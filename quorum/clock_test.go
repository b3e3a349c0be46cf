package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/quorum"
)

// The tests of this file move a mocked clock, which all servers share with the
// lock client. Only mock.Add lets time pass.

// client returns a lock client over servers a, b and c on the mocked clock.
func mocked(t *testing.T, cfg quorum.Config) (*clock.Mock, []*server, *lock.Client) {
	t.Helper()
	mock := clock.NewMock()
	servers := newServers(mock, "a", "b", "c")
	cfg.Clock = mock
	c, err := lock.New(open(t, servers, cfg), lock.Config{TTL: ttl, Margin: time.Second, Clock: mock,
		RenewEvery: -1, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(bg) })
	return mock, servers, c
}

// awaitVotes returns when every server has voted. Acquire returns when a
// majority has.
func awaitVotes(servers []*server) {
	for _, s := range servers {
		s.await("k")
	}
}

// TestTrustEndsBeforeTheMajoritysVotes: a holder that does not renew stops a
// margin before another client can get a majority.
func TestTrustEndsBeforeTheMajoritysVotes(t *testing.T) {
	mock, servers, c := mocked(t, quorum.Config{})
	l, err := c.Acquire(bg, "k")
	if err != nil {
		t.Fatal(err)
	}
	awaitVotes(servers)
	mock.Add(ttl - time.Second - time.Millisecond)
	if err := l.Err(); err != nil {
		t.Errorf("a millisecond before its end: %v", err)
	}
	mock.Add(time.Millisecond)
	if err := l.Err(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("at the end of trust: %v", err)
	}
	defer l.Release()
	other := open(t, servers, quorum.Config{Clock: mock})
	if _, err := other.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("another client, a margin before the votes end: %v", err)
	}
	mock.Add(time.Second)
	g, err := other.Contract().Try(bg, "k", ttl)
	if err != nil {
		t.Fatalf("another client, after the votes ended: %v", err)
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

// TestRenewalProlongsTrustOfAMajority: two of three members renewed. The votes
// of all have come, so all count.
func TestRenewalProlongsTrustOfAMajority(t *testing.T) {
	synctest.Test(t, renewTwoOfThree)
}

func renewTwoOfThree(t *testing.T) {
	mock, servers, c := mocked(t, quorum.Config{})
	l, err := c.Acquire(bg, "k")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	servers[2].fail("extend", errAway, false)
	for range 5 {
		mock.Add(ttl / 2)
		if err := l.Renew(bg); err != nil {
			t.Fatal(err)
		}
	}
	servers[1].fail("extend", errAway, false)
	mock.Add(ttl / 2)
	if err := l.Renew(bg); err == nil {
		t.Error("renewed on one member of three")
	}
	if err := l.Err(); err != nil {
		t.Errorf("while the renewal before counts: %v", err)
	}
	mock.Add(ttl/2 - time.Second)
	if err := l.Err(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("at the end of trust: %v", err)
	}
}

// TestAcquireWaitsUntilRestartedServersVote: all of them restarted, as after a
// power cut.
func TestAcquireWaitsUntilRestartedServersVote(t *testing.T) {
	mock, servers, c := mocked(t, quorum.Config{GreatestTTL: ttl})
	for _, s := range servers {
		s.restart(true)
	}
	var short *quorum.ShortError
	at := mock.Now().Add(ttl + 2*time.Second)
	if _, err := c.Acquire(bg, "k"); !errors.As(err, &short) || !short.VotesAt.Equal(at) {
		t.Fatalf("just restarted: %v", err)
	}
	mock.Add(ttl + 2*time.Second - time.Millisecond)
	if _, err := c.Acquire(bg, "k"); !errors.As(err, &short) {
		t.Errorf("a millisecond too early: %v", err)
	}
	mock.Add(time.Millisecond)
	l, err := c.Acquire(bg, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
