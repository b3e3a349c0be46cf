//go:build real

package wallshift_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/getsetlock/getsetlock/internal/interop"
	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/internal/wallshift"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/skew"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(interop.Ending(m)) }

// date asks a process under the clock for the time.
func date(t *testing.T, c *wallshift.Clock) time.Time {
	t.Helper()
	cmd := exec.Command("date", "+%s%N")
	cmd.Env = append(os.Environ(), c.Env()...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}

func TestClockIsOffByWhatWasSet(t *testing.T) {
	c := wallshift.New(t)
	for _, d := range []time.Duration{0, time.Hour, -time.Hour, 1500 * time.Millisecond, -1500 * time.Millisecond, 999999999, -999999999} {
		c.Set(d)
		before := time.Now().Add(d)
		got := date(t, c)
		if after := time.Now().Add(d); got.Before(before) || got.After(after) {
			t.Errorf("shifted by %v it is %v, want between %v and %v", d, got, before, after)
		}
	}
}

const (
	lease = 4 * time.Second
	poll  = 100 * time.Millisecond
)

// java starts a JVM of its own with one client of the original jar in it.
func java(t *testing.T, addr string, clock *wallshift.Clock) *interop.Client {
	t.Helper()
	j, err := interop.Start(t.Context(), interop.Options{Env: clock.Env()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	c := interop.NewClient(t, j, addr)
	if err := c.Lock(t.Context(), interop.Jar, "stock", 0, lease); err != nil {
		t.Fatal(err)
	}
	return c
}

// takes polls until c has the key and returns when, counted from began.
func takes(t *testing.T, c *interop.Client, began time.Time) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := c.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got.Won {
			return time.Since(began)
		}
	}
}

// near compares a time with the law's: not before, and within a poll and what a loaded machine takes.
func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-2*time.Millisecond {
		t.Errorf("%s after %v, the law says not before %v", what, got, want)
	}
	if got > want+poll+time.Second {
		t.Errorf("%s after %v, the law says within a poll of %v", what, got, want)
	}
	t.Logf("%s after %v; the law: %v and at most a poll of %v", what, got.Round(time.Millisecond), want, poll)
}

// freed is when the law frees a key whose holder never releases, for a challenger that is ahead by d.
func freed(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	v, err := skew.Law{Dialect: dialect.Jedis(), Lease: lease, Job: time.Hour}.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	return max(v.Recovery.Earliest-d, 0)
}

func TestRealPairOfJavaClientsUnderClocksOfTheirOwn(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	holders, challengers := wallshift.New(t), wallshift.New(t)
	a, b := java(t, s.Addr(), holders), java(t, s.Addr(), challengers)
	for _, c := range []struct {
		name               string
		holder, challenger time.Duration
	}{
		{"no skew", 0, 0},
		{"the fast thief", 0, 2500 * time.Millisecond},
		{"the slow holder: born expired", -10 * time.Second, 0},
		{"the fast holder: blocked for longer", 2 * time.Second, 0},
	} {
		holders.Set(c.holder)
		challengers.Set(c.challenger)
		s.Do("DEL", "stock")
		began := time.Now()
		takes(t, a, began)
		near(t, c.name, takes(t, b, began), freed(t, c.challenger-c.holder))
	}
	// The step in mid-job: the challenger's clock is set forwards by an hour while it waits.
	holders.Set(0)
	challengers.Set(0)
	s.Do("DEL", "stock")
	began := time.Now()
	takes(t, a, began)
	if got, err := b.Acquire(t.Context()); err != nil || got.Won {
		t.Fatalf("taken before the step: %v %v", got, err)
	}
	challengers.Set(time.Hour)
	stepped := time.Since(began)
	near(t, "the step in mid-job", takes(t, b, began), stepped)
}

// pttl is the rest of the key's TTL by the server.
func pttl(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do("PTTL", "token"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// TestServersClockStretchesAndShortensTTLs: Redis frees keys by its wall clock.
func TestServersClockStretchesAndShortensTTLs(t *testing.T) {
	clock := wallshift.New(t)
	s := redistest.Real(t, redistest.Options{Env: clock.Env()})
	backend, err := modern.New(s.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{TTL: time.Minute, Margin: 10 * time.Second, RenewEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	lease, err := client.Acquire(t.Context(), "token")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	clock.Set(-time.Hour)
	if left := pttl(t, s); left < time.Hour || left > time.Hour+time.Minute {
		t.Errorf("set back by an hour, the server keeps a key of a minute for %v", left)
	}
	clock.Set(20 * time.Second)
	if left := pttl(t, s); left > 40*time.Second {
		t.Errorf("set forward by 20 s, it keeps it for %v", left)
	}
	// Beyond the margin the key is gone while its holder still trusts it: what a margin is for.
	clock.Set(time.Minute + time.Second)
	other, err := modern.New(s.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Try(t.Context(), "token", time.Minute); err != nil {
		t.Errorf("a step beyond the margin did not free the key: %v", err)
	}
	if lease.Err() != nil {
		t.Error("no client can see that in time; the documents say so")
	}
}
