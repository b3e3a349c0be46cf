// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// One server keeps sessions for 20 s at most, and has a port that wants TLS and
// a certificate of the client.
func TestCommandTakesLocksOverTLS(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	port := program.Port(t)
	server := zktest.Start(t, "maxSessionTimeout=20000",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "secureClientPort="+port,
		"ssl.keyStore.location="+joined(t, c.key, c.cert), "ssl.trustStore.location="+c.authority,
		"ssl.clientAuth=need").Addr
	address := "zookeepers://127.0.0.1:" + port + "/locks"
	s := on(t, address)
	full := []string{"--cacert", c.authority, "--cert", c.cert, "--key", c.key}
	locked := func(verb string, flags []string, rest ...string) []string {
		return append(append([]string{verb}, flags...), rest...)
	}
	// The server's first handshake is slow.
	s.Want(s.Run(locked("wait", full, "--wait", "1m", "k")...), 0, "", "")
	s.Want(s.Run(locked("run", full, "--ttl", "5s", "k", "--", "echo", "done")...), 0, "done\n", "")
	s.Want(s.Run(locked("run", full[2:], "--wait", "0", "k", "--", "true")...), 122, "", "(--cacert)")
	s.Want(s.Run(locked("run", full[:2], "--wait", "0", "k", "--", "true")...), 122, "",
		"(--cert, --key)")
	plain := on(t, "zookeeper://127.0.0.1:"+port+"/locks")
	plain.Want(plain.Run("run", "--wait", "0", "k", "--", "true"), 122, "", "zookeepers://")
	mistaken := on(t, "zookeepers://"+server+"/locks")
	mistaken.Want(mistaken.Run(locked("run", full, "--wait", "0", "k", "--", "true")...), 122, "",
		"zookeeper://")

	// A client without TLS meets the lock.
	held, end := holding(s, "k", full...)
	other := on(t, "zookeeper://"+server+"/locks")
	other.Want(other.Run("run", "--wait", "0", "--ttl", "5s", "k", "--", "true"), 124, "",
		`held by "host7 getsetlock-hold"`)
	held.Errors.Await("ZooKeeper keeps a session for at most 20s")
	renewals(t, server, 2) // later than the first lease ends
	end()
	if got := <-held.Done; got.Code != 0 || strings.Count(got.Errors, "\n") != 1 {
		t.Errorf("a hold whose sessions are shorter than its TTL: %+v", got)
	}
}

// joined returns a file with the content of others.
func joined(t *testing.T, files ...string) string {
	t.Helper()
	var all [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(file, bytes.Join(all, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// renewals holds a lock until its end has moved so often.
func renewals(t *testing.T, server string, times int) {
	t.Helper()
	moved := make(chan time.Time, 1024)
	c, err := zookeeper.Open(context.Background(), "zookeeper://"+server+"/renewals", zookeeper.Options{
		Lock: lock.Config{TTL: 20 * time.Second, RenewEvery: 500 * time.Millisecond,
			Hooks: lock.Hooks{Renewed: func(e lock.Event) { moved <- e.Until }}}})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for last := lease.Until(); times > 0; {
		select {
		case until := <-moved:
			if until.After(last) {
				last = until
				times--
			}
		case <-lease.Done():
			t.Fatalf("the lease ended: %v", lease.Err())
		}
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
