// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// etcdctl is Debian's client of etcd.
func etcdctl(server string, args ...string) *exec.Cmd {
	cmd := exec.Command("etcdctl", args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS="+server)
	cmd.Stderr = os.Stderr
	return cmd
}

// admin is etcd's own client.
func admin(t *testing.T, server string, login ...string) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: []string{server}, Logger: zap.NewNop(), DialTimeout: time.Minute}
	if len(login) == 2 {
		cfg.Username, cfg.Password = login[0], login[1]
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// awaitKeys waits until n keys that begin with prefix were written.
func awaitKeys(t *testing.T, server, prefix string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	for reply := range admin(t, server).Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1),
		clientv3.WithFilterDelete()) {
		if n -= len(reply.Events); n <= 0 {
			return
		}
	}
	t.Fatalf("%d keys are missing below %q", n, prefix)
}

// contend lets run and another client add one to a number in turns.
func contend(t *testing.T, s *clitest.Stage, name string, ours, theirs int, other func(c *counter)) {
	t.Helper()
	c := newCounter(t)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range ours / 2 {
				if got := s.Run("run", "--wait", "forever", name, "--", "sh", "-c",
					c.script()); got.Code != 0 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	all.Go(func() { other(c) })
	all.Wait()
	c.want(ours + theirs)
}

func TestRunAndEtcdctlTakeTurns(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	s := on(t, "etcd://"+server)
	contend(t, s, "nightly", 20, 10, func(c *counter) {
		for range 10 {
			if err := etcdctl(server, "lock", "--ttl=30", "nightly", "--", "sh", "-c",
				c.script()).Run(); err != nil {
				t.Errorf("etcdctl: %v", err)
			}
		}
	})
	s.Want(s.Run("ls", "--json"), 0, "{\n  \"schema\": \"getsetlock.ls/1\",\n  \"locks\": []\n}\n", "")
}

func TestLsAndUnlockKnowTheLocksOfEtcd(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	s := on(t, "etcd://"+server)
	held, end := holding(s, "a/b")
	defer end()
	theirs := etcdctl(server, "lock", "--ttl=60", "other")
	waiter := etcdctl(server, "lock", "--ttl=60", "a/b", "--", "true")
	for _, cmd := range []*exec.Cmd{theirs, waiter} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		_ = theirs.Process.Kill()
		_ = theirs.Wait()
	}()
	awaitKeys(t, server, "other/", 1)
	awaitKeys(t, server, "a/b/", 2)
	locks := clitest.AnswerOf(t, s.Run("ls", "--json")).All("locks")
	if len(locks) != 2 || locks[0].Number("waiters") != 1 {
		t.Fatal(locks)
	}
	words := strings.Fields(held.Out.String()) // held TOKEN FENCE
	ours, other := locks[0], locks[1]
	if ours.At("key") != "a/b" || ours.At("owner") != words[1] ||
		ours.At("note") != "host7 getsetlock-hold" || ours.At("type") != "key" ||
		ours.At("protocol") != "etcd" ||
		clitest.Decimal(int64(ours.Number("fence"))) != words[2] || ours.At("left_ms") == nil {
		t.Error(ours)
	}
	if other.At("key") != "other" || other.At("note") != nil || other.At("owner") == nil ||
		other.Number("waiters") != 0 {
		t.Error(other)
	}
	s.Want(s.Run("unlock", "a/b", "--value", fmt.Sprint(other.At("value"))), 1, "",
		"does not hold that value")
	s.Want(s.Run("unlock", "a/b", "--value", words[1]), 0, "deleted a/b\n", "")
	if got := <-held.Done; got.Code != 123 || !strings.Contains(got.Errors, "its key is gone") {
		t.Errorf("the holder: %+v", got)
	}
	if err := waiter.Wait(); err != nil {
		t.Errorf("etcdctl was not woken: %v", err)
	}
	s.Want(s.Run("unlock", "-y", "other"), 0, "deleted other\n", "If its holder is alive")
	s.Want(s.Run("wait", "--wait", "0", "other"), 0, "", "")
}

// In etcd "stock" and "stock/1" share their keys.
func TestNamesThatShareKeysAreRefused(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	s := on(t, "etcd://"+server)
	held, end := holding(s, "stock/1")
	s.Want(s.Run("run", "stock", "--", "true"), 125, "", `"stock" is a path prefix of the name "stock/1", which is held: in etcd the two would share their keys; rename one of them`)
	s.Want(s.Run("run", "stock/1/x", "--", "true"), 125, "",
		`the name "stock/1", which is held, is a path prefix of "stock/1/x"`)
	s.Want(s.Run("run", "stock/2", "--", "true"), 0, "", "")
	s.Want(s.Run("run", "--wait", "0", "stock/1", "--", "true"), 124, "", `held by "host7 getsetlock-hold"`)
	end()
	s.Want(<-held.Done, 0, held.Out.String(), "")
	s.Want(s.Run("run", "stock", "--", "true"), 0, "", "")
	if _, err := admin(t, server).Put(t.Context(), "stock/notes", ""); err != nil {
		t.Fatal(err)
	}
	s.Want(s.Run("run", "--wait", "0", "stock", "--", "true"), 124, "",
		`through the key "stock/notes", which no lock has written: delete it`)
}

// A user with the rights of docs/guide/etcd.md takes the lock that the page
// names and no other.
func TestEtcdUserNeedsTheRightsOfThePage(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	client, ctx := admin(t, server), t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(client.RoleAdd(ctx, "root"))
	do(client.UserAdd(ctx, "root", "r00t"))
	do(client.UserGrantRole(ctx, "root", "root"))
	page, err := os.ReadFile(root + "/docs/guide/etcd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(page), "\n## Rights it needs\n")
	rights, _, _ = strings.Cut(rights, "\n## ")
	lines := 0
	for line := range strings.Lines(rights) {
		if args, found := strings.CutPrefix(line, "    etcdctl "); found {
			lines++
			do(nil, etcdctl(server, strings.Fields(args)...).Run())
		}
	}
	if lines == 0 {
		t.Fatal("the page grants nothing")
	}
	do(client.AuthEnable(ctx))
	defer func() {
		_, _ = admin(t, server, "root", "r00t").AuthDisable(context.Background())
	}()

	s := on(t, "etcd://cron@"+server)
	s.Vars["GETSETLOCK_PASSWORD"] = "secret"
	s.Want(s.Run("run", "nightly", "--", "true"), 0, "", "")
	s.Want(s.Run("run", "stock", "--", "true"), 122, "",
		`grant the user read and write rights on the keys that begin with "stock/"`)
	s.Want(s.Run("ls", "nightly"), 0, "", "no locks found")
	s.Want(s.Run("ls"), 3, "", "name a KEY or PATTERN that begins with what the user may read")
	s.Vars["GETSETLOCK_PASSWORD"] = "wrong"
	s.Want(s.Run("run", "nightly", "--", "true"), 122, "", "check user and password")
	s = on(t, "etcd://"+server)
	s.Want(s.Run("run", "nightly", "--", "true"), 122, "", "etcd wants a user and a password")
}

func TestEtcdByTLSWantsTheClientsCertificate(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	server := startEtcd(t, c.cert, c.key, c.authority)
	s := on(t, "etcds://"+server)
	s.Vars["GETSETLOCK_CACERT"], s.Vars["GETSETLOCK_CERT"], s.Vars["GETSETLOCK_KEY_FILE"] = c.authority,
		c.cert, c.key
	got := s.Run("run", "nightly", "--", "sh", "-c", "echo $GETSETLOCK_TARGET $GETSETLOCK_CACERT")
	s.Want(got, 0, "etcds://"+server+" "+c.authority+"\n", "")
	s.Timeout = 4 * time.Second // a busy machine needs long for one handshake
	delete(s.Vars, "GETSETLOCK_CACERT")
	s.Want(s.Run("ls"), 3, "",
		"name a file with the certificate of the authority that signed the server's (--cacert)")
	s.Vars = map[string]string{"GETSETLOCK_TARGET": "etcd://" + server}
	s.Want(s.Run("ls"), 3, "", "write etcds://")
}
