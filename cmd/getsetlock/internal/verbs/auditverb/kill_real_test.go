// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package auditverb

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// killedKeys is the number of locks that the audit looks at.
const killedKeys = 2000

// A killed program cannot tidy up, so it must leave nothing: no key, no
// setting, no tracking, no connection that listens.
func TestKilledAuditLeavesTheServerAsItWas(t *testing.T) {
	program := clitest.Built(t)
	server := redistest.Real(t, redistest.Options{})
	for n := range killedKeys {
		server.Do("SET", fmt.Sprintf("lock:%d", n), time.Now().Add(time.Duration(n)*time.Second).UnixMilli())
	}
	server.Do("SET", "lock:ttl", "1", "PX", "86400000")
	before := stateOf(server)
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
		if after := stateOf(server); after != before {
			t.Fatalf("killed after %d ticks: it was\n%s\nand is\n%s", n*2+1, before, after)
		}
	}
	// And once for sure while it listens to all commands, gets invalidations,
	// and looks.
	cmd := exec.Command(program, "audit", "--match", "lock:*", "--monitor", "--for", "1h", "--redis",
		server.URL())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	looks := looksAt(server)
	for !strings.Contains(clientsOf(server), "cmd=monitor") ||
		!strings.Contains(infoOf(server), "tracking_clients:1") || looksAt(server) < looks+2000 {
		<-tick.C
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	// Only connections are left, until the server has noticed their end.
	for strings.Count(clientsOf(server), "\n") != 1 {
		<-tick.C
	}
	if info := infoOf(server); !strings.Contains(info, "tracking_clients:0") ||
		!strings.Contains(info, "blocked_clients:0") {
		t.Errorf("what the server says of its clients:\n%s", info)
	}
	if after := stateOf(server); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	stats := string(server.Do("INFO", "commandstats").([]byte))
	for _, forbidden := range []string{
		"cmdstat_keys:", "cmdstat_config|set:", "cmdstat_del:", "cmdstat_getset:", "cmdstat_setnx:"} {
		if strings.Contains(stats, forbidden) {
			t.Errorf("it sent %s", forbidden)
		}
	}
}

// stateOf returns all that a program could leave: settings, every key with its
// value, and which keys have a TTL.
func stateOf(server *redistest.Server) string {
	var settings []string
	for _, v := range server.Do("CONFIG", "GET", "*").([]any) {
		settings = append(settings, string(v.([]byte)))
	}
	// Not by KEYS, which the test watches the audit for. The number of keys
	// would show added ones.
	digest := server.Do("EVAL", `local text = ''
for n = -1, tonumber(ARGV[1]) - 1 do
  local key = n < 0 and 'lock:ttl' or 'lock:' .. n
  text = redis.sha1hex(text .. redis.call('DUMP', key) .. tostring(redis.call('PTTL', key) > 0))
end
return text`, 0, killedKeys)
	return fmt.Sprint(server.Do("DBSIZE"), slices.Compact(settings), string(digest.([]byte)))
}

func clientsOf(server *redistest.Server) string { return string(server.Do("CLIENT", "LIST").([]byte)) }

func infoOf(server *redistest.Server) string { return string(server.Do("INFO", "clients").([]byte)) }

// looksAt returns how many looks the server has answered. Only looks ask for
// TTLs.
func looksAt(server *redistest.Server) (n int64) {
	_, row, _ := strings.Cut(string(server.Do("INFO", "commandstats").([]byte)), "cmdstat_pttl:calls=")
	row, _, _ = strings.Cut(row, ",")
	n, _ = strconv.ParseInt(row, 10, 64)
	return n
}
