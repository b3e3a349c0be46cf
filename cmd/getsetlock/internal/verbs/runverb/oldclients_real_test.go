// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package runverb

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// lagging is a clock that is behind this machine's.
type lagging struct {
	lock.Clock
	by time.Duration
}

func (c lagging) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// oldClient sends the commands of an old client with such a clock.
func oldClient(t *testing.T, s *redistest.Server, d dialect.Dialect, behind time.Duration) *legacy.Backend {
	t.Helper()
	b, err := legacy.New(s.Pool(), legacy.Config{Mode: legacy.Verbatim, Dialect: d,
		Clock: lagging{lock.Machine, behind}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func valueOf(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	v, err := redis.String(s.Do("GET", key), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The library ships with a lease of 5 s. This fleet uses 20 s, and its clocks
// are 12 s behind the server's. The holder took the lock 8 s ago, so that the
// server's clock is past its value, and it works for 12 s more.
func TestRunSparesAFleetWithALongerLease(t *testing.T) {
	clock := wallshift.New(t)
	clock.Set(12 * time.Second)
	server := redistest.Real(t, redistest.Options{Env: clock.Env()})
	old := oldClient(t, server, dialect.Errorception(), 8*time.Second)
	g, err := old.Contract().Try(t.Context(), "k", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	value := valueOf(t, server, "k")
	s := clitest.OnReal(t, server)
	s.Want(s.Run("run", "--dialect", "errorception", "--wait", "7s", "k", "--", "echo", "both"), 124, "",
		"nobody stated the lease of the old clients")
	if got := valueOf(t, server, "k"); got != value {
		t.Errorf("the holder's value was replaced by %q", got)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// startTimes is a dialect whose value is the time of the acquisition: the lease
// that it adds is a millisecond.
func startTimes() dialect.Dialect {
	d := dialect.Jedis()
	d.Name, d.Slack, d.Lease = "starts", 0, time.Millisecond
	return d
}

func TestRunSparesHoldersThatWriteStartTimes(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	old := oldClient(t, server, startTimes(), 0)
	if _, err := old.Contract().Try(t.Context(), "k", time.Millisecond); err != nil {
		t.Fatal(err)
	}
	s := clitest.OnReal(t, server)
	s.Want(s.Run("run", "--behind", "1s", "k", "--", "echo", "both"), 125, "", "--behind needs --dialect")

	// The operator names a dialect of expiries. A holder hands over during the
	// wait, and the new one works.
	st := s.Start("run", "--dialect", "jedis", "--behind", "1s", "--lease", "60s", "--wait", "3s", "k", "--",
		"echo", "both")
	st.Errors.Await("waiting: ")
	second, err := dialect.Jedis().Stamp(time.Now(), time.Millisecond, "")
	if err != nil {
		t.Fatal(err)
	}
	server.Do("GETSET", "k", second)
	s.Want(<-st.Done, 124, "", "--behind 1s does not count")
	if got := valueOf(t, server, "k"); got != second {
		t.Errorf("the holder's value was replaced by %q", got)
	}
}

// What a fleet of honest clients writes contradicts no true claim: run takes
// over from the dead one.
func TestRunTakesADeadLockAmongHonestClients(t *testing.T) {
	clock := wallshift.New(t)
	clock.Set(3 * time.Second)
	server := redistest.Real(t, redistest.Options{Env: clock.Env()})
	old := oldClient(t, server, dialect.Jedis(), 0)
	if _, err := old.Contract().Try(t.Context(), "k", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s := clitest.OnReal(t, server)
	// A stamp that is late counts as one of a clock that is behind.
	st := s.Start("run", "--dialect", "jedis", "--behind", "7s", "--lease", "5s", "--gap", "500ms", "--wait",
		"1m", "k", "--", "echo", "ran")
	st.Errors.Await("waiting: ")
	// Another client takes over at the end of the lease, and dies.
	text, err := dialect.Jedis().Stamp(time.Now(), 5*time.Second, "")
	if err != nil {
		t.Fatal(err)
	}
	server.Do("GETSET", "k", text)
	got := <-st.Done
	if got.Code != 0 || got.Out != "ran\n" || strings.Contains(got.Errors, "does not count") {
		t.Errorf("%+v", got)
	}
}
