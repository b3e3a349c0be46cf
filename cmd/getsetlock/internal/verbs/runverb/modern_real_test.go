// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package runverb

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestTokenLockIsKeptOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := b.Start(t, redistest.Options{})
			s := clitest.OnReal(t, server)
			last := int64(0)
			for range 3 {
				got := s.Run(clitest.TokenScript("", "k", `echo "$GETSETLOCK_FENCE"`)...)
				n, err := strconv.ParseInt(strings.TrimSpace(got.Out), 10, 64)
				if err != nil || n <= last || got.Code != 0 {
					t.Fatalf("%d after %d: %+v", n, last, got)
				}
				last = n
			}
			s.Want(s.Run(clitest.TokenScript("--keep 1h", "k", ":")...), 0, "", "")
			s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo no")...), 124, "", "host7 sh")
			token, note, _ := strings.Cut(clitest.ValueOf(s, "k"), " ")
			if !scope.IsToken(token) || note != "host7 sh" {
				t.Errorf("%q %q", token, note)
			}
			s.Want(s.Run("unlock", "k", "--value", token), 0, "deleted k\n", "")
			s.Want(s.Run("ls"), 0, "", "no locks found")
		})
	}
}

// TestRunWorksOnTheOnlyNodeOfACluster: scripts may use keys of one slot only.
func TestRunWorksOnTheOnlyNodeOfACluster(t *testing.T) {
	server := redistest.OnlyNode(t)
	s := clitest.OnReal(t, server)
	for _, key := range redistest.OddKeys {
		for range 2 { // the second run finds a counter
			s.Want(s.Run(clitest.TokenScript("", key, "echo ran")...), 0, "ran\n", "")
		}
		s.Want(s.Run(clitest.TokenScript("--keep 1h", key, "echo ran")...), 0, "ran\n", "")
		s.Want(s.Run(clitest.TokenScript("--wait 0", key, "echo no")...), 124, "", "host7 sh")
		st := s.Start(clitest.TokenScript("", key, "echo waited")...)
		st.Errors.Await("waiting")
		server.Do("DEL", key)
		s.Want(<-st.Done, 0, "waited\n", "waiting")
	}
}

// TestVerbsWorkOnACluster of several nodes, over all primaries. Verbs that do
// not refuse it in one sentence.
func TestVerbsWorkOnACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := clitest.OnReal(t, c.Primaries[0])
	s.Vars["GETSETLOCK_REDIS"] = c.URL()
	for _, key := range redistest.OddKeys {
		for range 2 { // the second run finds a counter
			s.Want(s.Run(clitest.TokenScript("", key, "echo ran")...), 0, "ran\n", "")
		}
		s.Want(s.Run(clitest.TokenScript("--keep 1h", key, "echo ran")...), 0, "ran\n", "")
		s.Want(s.Run(clitest.TokenScript("--wait 0", key, "echo no")...), 124, "", "host7 sh")
		st := s.Start(clitest.TokenScript("", key, "echo waited")...)
		st.Errors.Await("waiting")
		c.Owner(key).Do("DEL", key)
		s.Want(<-st.Done, 0, "waited\n", "waiting")
	}
	keys := []string{"a", "b", "c", "d"} // on all primaries
	for _, key := range keys {
		s.Want(s.Run(clitest.TokenScript("--keep 1h", key, "echo ran")...), 0, "ran\n", "")
	}
	if n := len(clitest.AnswerOf(t, s.Run("ls", "--json")).At("locks").([]any)); n != len(keys) {
		t.Errorf("ls shows %d locks", n)
	}
	s.Want(s.Run("unlock", "a", "--value", clitest.ValueOf(s, "a")), 0, "deleted a\n", "")
	s.Want(s.Run("wait", "a"), 0, "", "")
	for _, key := range keys[1:] {
		s.Want(s.Run("unlock", "--yes", key), 0, "deleted "+key+"\n", "held")
	}
	const refusal = "a Redis Cluster of several nodes cannot be used for this"
	for _, protocol := range []string{"legacy", "dual"} {
		s.Want(s.Run("run", "--protocol", protocol, "k", "--", "true"), 125, "", refusal)
		node := "redis://" + c.Owner("k").Addr()
		s.Want(s.Run("run", "--redis", node, "--protocol", protocol, "k", "--", "true"), 125, "",
			"a node of a Redis Cluster of several")
	}
	whole := [][]string{{"audit", "--for", "1s"}, {"doctor", "--match", "lock:*", "--fix", "--yes"},
		{"doctor", "--watch", "1s"}, {"migrate", "init", "--dialect", "jedis"}}
	for _, verb := range []string{"status", "plan", "advance", "back", "clean", "sweep", "log"} {
		whole = append(whole, []string{"migrate", verb})
	}
	for _, args := range whole {
		s.Want(s.Run(args...), 2, "", refusal)
		one := append(args, "--redis", "redis://"+c.Primaries[0].Addr())
		s.Want(s.Run(one...), 2, "", "a node of a Redis Cluster of several")
	}
	past := time.Now().Add(-time.Hour).UnixMilli()
	for _, key := range keys {
		c.Owner(key).Do("SET", key, past)
	}
	got := s.Run("doctor")
	for _, node := range c.Primaries {
		if !strings.Contains(got.Out, node.Addr()+": calls itself") {
			t.Errorf("doctor did not look at %s", node.Addr())
		}
	}
	if n := strings.Count(got.Out, "an old client writes to a cluster"); got.Code != 1 || n != len(keys) {
		t.Errorf("code %d, %d locks found:\n%s", got.Code, n, got.Out)
	}
	from, to := c.Owner("a"), c.Owner("b")
	if to == from {
		to = c.Owner("c")
	}
	c.Begin(c.Slot("a"), from, to)
	c.Carry(from, to, "a")
	if got := s.Run("doctor"); strings.Count(got.Out, "an old client writes to a cluster") != len(keys)-1 {
		t.Errorf("while a key moves: code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// The server reports the change. The next renewal is a third of an hour away.
func TestUnlockEndsTheCommandBeforeTheNextRenewal(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	for _, how := range []string{"unlock", "steal"} {
		s := clitest.OnReal(t, server)
		st := s.Start(clitest.TokenScript("--ttl 1h --keep 1h", how, obeys)...)
		st.Out.Await("ready")
		if how == "unlock" {
			s.Want(s.Run("unlock", how, "--value", clitest.ValueOf(s, how)), 0, "deleted unlock\n", "")
			s.Want(<-st.Done, 123, "ready\ntold\n", "is gone")
			continue
		}
		server.Do("SET", how, clitest.Token, "PX", "3600000")
		s.Want(<-st.Done, 123, "ready\ntold\n", `is held by another client: token "`+clitest.Token+`"`)
	}
}

func TestTokenLockWaitsForReplicas(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	s.Want(s.Run(clitest.TokenScript("--wait 0 --replicas 1", "k", "echo no")...), 122, "",
		server.Addr()+": 0 of 1 replicas acknowledged the key within 100ms; lower --replicas if fewer are enough")
	server.StartReplica()
	c := server.Pool().Get()
	defer c.Close()
	for n := 0; n < 1; { // until the replica acknowledges what this connection writes
		_, err := c.Do("SET", "follows", "1", "PX", 1)
		if err == nil {
			n, err = redis.Int(c.Do("WAIT", 1, 1000))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Want(s.Run(clitest.TokenScript("--replicas 1", "k", "echo ran")...), 0, "ran\n", "")
	if server.Do("EXISTS", "k").(int64) != 0 {
		t.Error("the key is left")
	}
}

// With a lease of an hour, only the release can give the key to the waiter.
func TestWaitingRunGetsAReleasedTokenLock(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	file := filepath.Join(t.TempDir(), "go")
	first := s.Start(clitest.TokenScript("--ttl 1h", "k", untilTold(file, "echo ready"))...)
	first.Out.Await("ready")
	second := s.Start(clitest.TokenScript("--wait forever --keep 1h", "k",
		`echo "${GETSETLOCK_FENCE:-none}" | tr 0-9 x`)...)
	second.Errors.Await("waiting: key \"k\" is held by")
	touch(t, file)
	s.Want(<-first.Done, 0, "ready\n", "")
	got := <-second.Done
	s.Want(got, 0, strings.Repeat("x", 16)+"\n", "waiting")
	s.Want(s.Run("unlock", "k", "--value", clitest.ValueOf(s, "k")), 0, "deleted k\n", "")
}

// A release gives the key to the next waiter, some time after its last try. A
// command started on a lease that ends soon would get SIGTERM at once.
func TestGivenLeaseDoesNotEndTheNextCommand(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	dir := t.TempDir()
	end := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	start := func(i int) *clitest.Started {
		return s.Start(clitest.TokenScript("--wait forever", "k",
			untilTold(end(i), "trap 'echo told; exit 9' TERM; echo ran"))...)
	}
	holder, waited := start(0), ""
	holder.Out.Await("ran")
	for i := range 5 {
		next := start(i + 1)
		next.Errors.Await("waiting: key \"k\" is held by")
		touch(t, end(i))
		s.Want(<-holder.Done, 0, "ran\n", waited)
		ran := make(chan struct{})
		go func() { next.Out.Await("ran"); close(ran) }()
		select {
		case <-ran:
		case got := <-next.Done:
			t.Fatalf("ended before it was to: %+v", got)
		}
		holder, waited = next, "waiting"
	}
	touch(t, end(5))
	s.Want(<-holder.Done, 0, "ran\n", waited)
}
