// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package auditverb

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

func TestAuditPageIsWholeInABrowser(t *testing.T) {
	s := clitest.NewStage(t)
	file := filepath.Join(t.TempDir(), "audit.html")
	if got := s.Run("audit", "--demo", "--report", file); got.Code != 1 {
		t.Fatalf("code %d: %s", got.Code, got.Errors)
	}
	clitest.WholePage(t, file, "stock-3", 2, "Offset of each client's clock", "Timeline of lock:")
}

// On a real server: bursts of MONITOR, their cost, and a user without the right
// to it.
func TestAuditOfARealServerNamesWritersAndCost(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := &clitest.Stage{T: t, Clock: lock.Machine, Vars: map[string]string{"GETSETLOCK_REDIS": server.URL()}}
	conn := server.Pool().Get()
	defer conn.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				// Not the tick's own instant: that may be earlier than the last
				// reply.
				stamp := time.Now().Add(time.Minute + 3*time.Second).UnixMilli() // three seconds ahead
				_, _ = conn.Do("SETNX", "lock:a", stamp)
				_, _ = conn.Do("GET", "lock:a")
				_, _ = conn.Do("DEL", "lock:a")
			}
		}
	}()
	got := s.Run("audit", "--match", "lock:*", "--for", "3s", "--monitor", "--lease", "60s", "--gap", "5s",
		"--dialect", "jedis", "--json")
	close(stop)
	<-stopped
	doc := clitest.AnswerOf(t, got)
	found := false
	for _, w := range doc.All("writers") {
		if low, high := w.Number("offset.low_ms"), w.Number("offset.high_ms"); w.At("addr") != nil {
			found = found || low != 0 && low <= 2999 && high >= 2999
			t.Logf("%v: %v … %v ms", w.At("addr"), low, high)
		}
	}
	if !found || got.Code != 1 {
		t.Errorf("code %d, %v", got.Code, doc.At("writers"))
	}
	if doc.Number("cost.monitor_bursts") == 0 || doc.At("cost.ping_on_ms") == nil ||
		doc.At("cost.share") == nil {
		t.Errorf("%v", doc.At("cost"))
	}
	if keys := fmt.Sprint(server.Do("DBSIZE")); keys != "0" && keys != "1" {
		t.Errorf("%s keys", keys)
	}
	s.Vars["GETSETLOCK_REDIS"] = server.User("look", "pw", "~*", "+@all", "-monitor", "-client")
	doc = clitest.AnswerOf(t, s.Run("audit", "--match", "lock:*", "--for", "1s", "--monitor", "--json"))
	missing := 0
	for _, source := range doc.All("sources") {
		if source.At("missing") != nil {
			missing++
		}
	}
	if missing < 2 {
		t.Errorf("%v", doc.At("sources"))
	}
}
