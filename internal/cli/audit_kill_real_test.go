//go:build real && unix

package cli

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

// A program that is killed can tidy nothing up, so there must be nothing: no key, no setting, no
// tracking, nobody listening.
func TestKilledAtAnyMomentTheAuditLeavesTheServerAsItWas(t *testing.T) {
	program := filepath.Join(t.TempDir(), "getsetlock")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/getsetlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := redistest.Real(t, redistest.Options{})
	for n := range 2000 {
		server.Do("SET", fmt.Sprintf("lock:%d", n), time.Now().Add(time.Duration(n)*time.Second).UnixMilli())
	}
	state := func() string {
		var settings []string
		for _, v := range server.Do("CONFIG", "GET", "*").([]any) {
			settings = append(settings, string(v.([]byte)))
		}
		return fmt.Sprint(server.Do("DBSIZE"), slices.Compact(settings), server.Do("GET", "lock:7"), server.Do("PTTL", "lock:7"))
	}
	before := state()
	tick := time.NewTicker(35 * time.Millisecond)
	defer tick.Stop()
	for n := range 12 {
		args := []string{"audit", "--match", "lock:*", "--monitor", "--for", "1h"}
		if n%4 == 3 {
			args = []string{"doctor", "--match", "lock:*", "--dialect", "jedis", "--watch", "1h"}
		}
		cmd := exec.Command(program, append(args, "--redis", server.URL())...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range n*2 + 1 { // each later than the one before
			<-tick.C
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if after := state(); after != before {
			t.Fatalf("killed after %d ticks: it was\n%s\nand is\n%s", n*2+1, before, after)
		}
	}
	// What is left are connections, until the server has noticed their end.
	for {
		clients := string(server.Do("CLIENT", "LIST").([]byte))
		if strings.Count(clients, "\n") == 1 {
			break
		}
		<-tick.C
	}
	stats := string(server.Do("INFO", "commandstats").([]byte))
	for _, forbidden := range []string{"cmdstat_keys:", "cmdstat_config|set:", "cmdstat_del:", "cmdstat_getset:", "cmdstat_setnx:"} {
		if strings.Contains(stats, forbidden) {
			t.Errorf("it sent %s", forbidden)
		}
	}
}
