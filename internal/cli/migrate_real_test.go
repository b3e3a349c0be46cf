//go:build real

package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// TestStatusWatchTellsWhatIsWrittenAndKeepsItForTheGates watches a real server until ^C, and compares what
// it prints with the runbook.
func TestStatusWatchTellsWhatIsWrittenAndKeepsItForTheGates(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := &stage{t: t, clock: lock.Machine, vars: map[string]string{"GETSETLOCK_REDIS": server.URL()}}
	if got := s.run("migrate", "init", "--namespace", "stock"); got.code != 0 {
		t.Fatal(got)
	}
	st := s.start("migrate", "status", "--namespace", "stock", "--watch")
	st.out.await("by stats")
	if strings.Contains(st.out.String(), "stock:42") {
		t.Error("seen before it was there")
	}
	server.Do("SETNX", "stock:42", decimal(time.Now().Add(time.Minute).UnixMilli()+1))
	st.out.await(`on "stock:42"`)
	s.signal(os.Interrupt)
	got := <-st.done
	if got.code != 130 || !strings.Contains(got.errors, "interrupted by ^C") {
		t.Errorf("%d %s", got.code, got.errors)
	}
	printed := strings.Split(shapeOf(got.out), "\n")
	for line := range strings.Lines(shapeOf(shown(t, watchLine))) {
		// A slow machine may see more lines in between.
		at := slices.Index(printed, strings.TrimSuffix(line, "\n"))
		if at < 0 {
			t.Errorf("%s shows %q, and printed was\n%s", runbook, line, got.out)
			break
		}
		printed = printed[at+1:]
	}
	if n := server.Do("EXISTS", "gsl:seen:stock"); n != int64(1) {
		t.Error("nothing is kept for the gates")
	}
	claimed := []string{"migrate", "plan", "--namespace", "stock", "--lease", "60s", "--job", "10s", "--spread", "1s", "--gap", "1s"}
	if got := s.run(claimed...); got.code != 0 || !strings.Contains(got.out, "sealed to modern") {
		t.Errorf("%+v", got)
	}
}

// TestStatusWatchTakesItsDatabaseFromTheAddress has a user who may not list the connections, so that the server
// does not say which database the watch is in. What happens in database 0 is another fleet's.
func TestStatusWatchTakesItsDatabaseFromTheAddress(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	url := server.User("watcher", "secret", "~*", "&*", "+@all", "-client|list") + "/3"
	s := &stage{t: t, clock: lock.Machine, vars: map[string]string{"GETSETLOCK_REDIS": url}}
	if got := s.run("migrate", "init", "--namespace", "stock"); got.code != 0 {
		t.Fatal(got)
	}
	st := s.start("migrate", "status", "--namespace", "stock", "--watch", "--monitor")
	st.out.await("by monitor")
	attempt := func(database int, key string) {
		end := decimal(time.Now().Add(time.Minute).UnixMilli() + 1)
		server.Do("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('SETNX', KEYS[1], ARGV[2])", 1, key, database, end)
	}
	attempt(0, "stock:0")
	attempt(3, "stock:3")
	attempt(3, "stock:3")
	st.out.await(`last attempt in vain`)
	s.signal(os.Interrupt)
	got := <-st.done
	if !strings.Contains(got.out, `on "stock:3"`) || strings.Contains(got.out, "stock:0") {
		t.Errorf("%d %s", got.code, got.out)
	}
}
