// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrateverb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// The test watches a real server until ^C, and compares the output with the
// runbook.
func TestStatusWatchPrintsAndRecordsWhatItSees(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := &clitest.Stage{T: t, Clock: lock.Machine, Vars: map[string]string{"GETSETLOCK_REDIS": server.URL()}}
	if got := s.Run("migrate", "init", "--namespace", "stock"); got.Code != 0 {
		t.Fatal(got)
	}
	st := s.Start("migrate", "status", "--namespace", "stock", "--watch", "--monitor")
	st.Out.Await("MONITOR shows no attempt")
	if strings.Contains(st.Out.String(), "stock:42") {
		t.Error("seen before it was there")
	}
	server.Do("SETNX", "stock:42", clitest.Decimal(time.Now().Add(time.Minute).UnixMilli()+1))
	st.Out.Await(`on "stock:42"`)
	s.Signal(os.Interrupt)
	got := <-st.Done
	if got.Code != 130 || !strings.Contains(got.Errors, "interrupted by ^C") {
		t.Errorf("%d %s", got.Code, got.Errors)
	}
	printed := strings.Split(shapeOf(got.Out), "\n")
	for line := range strings.Lines(shapeOf(shown(t, watchLine))) {
		if line == " …\n" {
			continue // lines left out
		}
		// A slow machine may see more lines in between.
		at := slices.Index(printed, strings.TrimSuffix(line, "\n"))
		if at < 0 {
			t.Errorf("%s shows %q, and printed was\n%s", runbook, line, got.Out)
			break
		}
		printed = printed[at+1:]
	}
	if n := server.Do("EXISTS", "gsl:seen:stock"); n != int64(1) {
		t.Error("nothing is kept for the gates")
	}
	claimed := []string{"migrate", "plan", "--namespace", "stock", "--lease", "60s", "--job", "10s",
		"--spread", "1s", "--gap", "1s"}
	if got := s.Run(claimed...); got.Code != 0 || !strings.Contains(got.Out, "sealed to modern") {
		t.Errorf("%+v", got)
	}
}

func TestPageOfThePlanIsWholeInABrowser(t *testing.T) {
	tr, file := newTroupe(t), filepath.Join(t.TempDir(), "plan.html")
	tr.ends(0, tr.verb("init", "--dialect", "jedis"))
	tr.join("stock", "a")
	tr.ends(0, tr.verb("plan", "--idle", "24h", "--report", file))
	clitest.WholePage(t, file, "Gate to ", 2, "Timeline of the phases")
}

// The user may not list the connections, so the server does not say which
// database the watch uses. Events in database 0 belong to another fleet.
func TestStatusWatchTakesItsDatabaseFromTheAddress(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	url := server.User("watcher", "secret", "~*", "&*", "+@all", "-client|list") + "/3"
	s := &clitest.Stage{T: t, Clock: lock.Machine, Vars: map[string]string{"GETSETLOCK_REDIS": url}}
	if got := s.Run("migrate", "init", "--namespace", "stock"); got.Code != 0 {
		t.Fatal(got)
	}
	st := s.Start("migrate", "status", "--namespace", "stock", "--watch", "--monitor")
	st.Out.Await("MONITOR shows no attempt")
	attempt := func(database int, key string) {
		end := clitest.Decimal(time.Now().Add(time.Minute).UnixMilli() + 1)
		server.Do("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('SETNX', KEYS[1], ARGV[2])", 1,
			key, database, end)
	}
	attempt(0, "stock:0")
	attempt(3, "stock:3")
	attempt(3, "stock:3")
	st.Out.Await(`last failed attempt`)
	s.Signal(os.Interrupt)
	got := <-st.Done
	if !strings.Contains(got.Out, `on "stock:3"`) || strings.Contains(got.Out, "stock:0") {
		t.Errorf("%d %s", got.Code, got.Out)
	}
}
