// SPDX-License-Identifier: Apache-2.0

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

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/skew"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(interop.Ending(m)) }

// date returns the time that a process under the clock reads.
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

func TestClockIsOffByTheDurationSet(t *testing.T) {
	c := wallshift.New(t)
	for _, d := range []time.Duration{
		0, time.Hour, -time.Hour, 1500 * time.Millisecond, -1500 * time.Millisecond, 999999999, -999999999} {
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

// java starts a JVM with one client of the original jar.
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

// taken says when a client won, and when its last failed attempt began (0:
// none), both since the same moment.
type taken struct{ won, lost time.Duration }

// takes polls until c has the key. It measures from began.
func takes(t *testing.T, c *interop.Client, began time.Time) (got taken) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		sent := time.Since(began)
		a, err := c.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if a.Won {
			got.won = time.Since(began)
			return got
		}
		got.lost = sent
	}
}

// unit is the precision of stamps, for two clocks.
const unit = 2 * time.Millisecond

// near compares a time with the law's: no client wins before want, and no
// attempt that begins after it loses. The law counts from a stamp made by held
// at the latest. So a busy machine, on which attempts are few and slow, is
// judged as strictly as a quiet one.
func near(t *testing.T, what string, got taken, want, held time.Duration) {
	t.Helper()
	if got.won < want-unit {
		t.Errorf("%s after %v, the law says not before %v", what, got.won, want)
	}
	if got.lost > held+want+unit {
		t.Errorf("%s: an attempt that began after %v lost, the law says that it wins from %v on, counted from %v at the latest", what, got.lost, want, held)
	}
	t.Logf("%s after %v; the law: %v and at most a poll of %v", what, got.won.Round(time.Millisecond), want,
		poll)
}

// freed returns when the law frees a key whose holder never releases, for a
// challenger whose clock is ahead by d.
func freed(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	v, err := skew.Law{Dialect: dialect.Jedis(), Lease: lease, Job: time.Hour}.Verdict()
	if err != nil {
		t.Fatal(err)
	}
	return max(v.Recovery.Earliest-d, 0)
}

func TestJavaClientsUnderSkewedClocksFollowTheLaw(t *testing.T) {
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
		held := takes(t, a, began).won
		near(t, c.name, takes(t, b, began), freed(t, c.challenger-c.holder), held)
	}
	// A step during a job: the challenger's clock is set forward by an hour
	// while it waits.
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
	near(t, "the step in mid-job", takes(t, b, began), stepped, 0)
}

// pttl returns what the server says is left of the key's TTL.
func pttl(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do("PTTL", "token"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// Redis expires keys by its wall clock.
func TestServerClockStepsChangeTTLs(t *testing.T) {
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
	began := time.Now()
	lease, err := client.Acquire(t.Context(), "token")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	// The server computes what is left of a TTL from its wall clock, so a step
	// shortens it by exactly the step.
	for _, step := range []time.Duration{-time.Hour, -time.Second, 0, time.Second, 20 * time.Second} {
		clock.Set(step)
		left, age := pttl(t, s), time.Since(began)
		if most := time.Minute - step; left > most || left < most-age-unit {
			t.Errorf("stepped by %v, %v after the request a key with a TTL of a minute has %v left", step,
				age, left)
		}
	}
	// A step larger than the margin removes the key while its holder still
	// trusts the lease: smaller steps are what the margin is for.
	clock.Set(time.Minute + time.Second)
	other, err := modern.New(s.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Contract().Try(t.Context(), "token", time.Minute); err != nil {
		t.Errorf("a step beyond the margin did not free the key: %v", err)
	}
	if lease.Err() != nil {
		t.Error("the lease is lost although no client can notice that step in time")
	}
}
