//go:build real

package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// TestStatusWatchTellsWhatIsWrittenAndKeepsItForTheGates watches a real server until ^C.
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
	server.Do("SETNX", "stock:42", decimal(time.Now().Add(time.Minute).UnixMilli()))
	st.out.await(`on "stock:42"`)
	s.signal(os.Interrupt)
	got := <-st.done
	if got.code != 130 || !strings.Contains(got.errors, "interrupted by ^C") {
		t.Errorf("%d %s", got.code, got.errors)
	}
	if n := server.Do("EXISTS", "gsl:seen:stock"); n != int64(1) {
		t.Error("nothing is kept for the gates")
	}
	claimed := []string{"migrate", "plan", "--namespace", "stock", "--lease", "60s", "--job", "10s", "--spread", "1s", "--gap", "1s"}
	if got := s.run(claimed...); got.code != 0 || !strings.Contains(got.out, "sealed to modern") {
		t.Errorf("%+v", got)
	}
}
