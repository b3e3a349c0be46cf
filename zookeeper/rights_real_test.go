// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
)

// A session that holds nothing asks the root for a sign of life. Where only an
// administrator may read that, the refusal is one: the ensemble commits it.
func TestSessionLivesWithoutRightsOnTheRoot(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	admin, _, err := zk.Connect([]string{server.Addr}, zktest.Patience, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.SetACL("/", zk.DigestACL(zk.PermAll, "admin", "secret"), -1); err != nil {
		t.Fatal(err)
	}
	b, err := New([]string{server.Addr}, Config{Timeout: zktest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	s, err := b.engine.session(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	zxid := func() string {
		_, after, _ := strings.Cut(b.engine.word(ctx, server.Addr, "srvr"), "Zxid: ")
		id, _, _ := strings.Cut(after, "\n")
		return id
	}
	was, began := zxid(), s.Now()
	s.Lock()
	s.trust.last.done -= gap(s.timeout) // else it follows the greeting too soon
	s.Unlock()
	if err := s.write(ctx); err != nil {
		t.Fatal(err)
	}
	s.Lock()
	last := s.trust.last.sent.Elapsed
	s.Unlock()
	if last < began {
		t.Error("it is no sign of life")
	}
	if now := zxid(); now == was || now == "" {
		t.Errorf("nothing was committed: %q", now)
	}
}

// A user with the rights of docs/guide/zookeeper.md takes a lock below the
// chroot, and another user does not. Only an administrator has rights above.
func TestUserNeedsTheRightsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guide/zookeeper.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(page), "\n## Rights it needs\n")
	rights, _, _ = strings.Cut(rights, "\n## ")
	server := zktest.Start(t)
	admin, _, err := zk.Connect([]string{server.Addr}, zktest.Patience, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.AddAuth("digest", []byte("admin:secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SetACL("/", zk.AuthACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(rights) {
		if line, found := strings.CutPrefix(line, "    "); found {
			lines++
			zkCli(t, admin, strings.Fields(line))
		}
	}
	if lines != 2 {
		t.Fatalf("%d lines grant rights", lines)
	}
	ctx := context.Background()
	try := func(user string) error {
		b, err := New([]string{server.Addr}, Config{Chroot: "/locks", User: user, Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		g, err := b.Contract().Try(ctx, "nightly", 10*time.Second)
		if err != nil {
			return err
		}
		_, err = b.List(ctx, "")
		return errors.Join(err, g.Release(ctx))
	}
	if err := try("cron"); err != nil {
		t.Error(err)
	}
	if err := try("ann"); err == nil || !strings.Contains(err.Error(), "/locks/nightly") {
		t.Errorf("a user without rights: %v", err)
	}
}

// zkCli does what a line of zkCli.sh does: create PATH, or setAcl PATH with one
// entry.
func zkCli(t *testing.T, admin *zk.Conn, words []string) {
	t.Helper()
	var err error
	switch {
	case len(words) == 2 && words[0] == "create":
		_, err = admin.Create(words[1], nil, 0, zk.WorldACL(zk.PermAll))
	case len(words) == 3 && words[0] == "setAcl":
		scheme, rest, _ := strings.Cut(words[2], ":")
		at := strings.LastIndex(rest, ":")
		acl := zk.ACL{Scheme: scheme, ID: rest[:at]}
		for _, letter := range rest[at+1:] {
			acl.Perms |= map[rune]int32{'c': zk.PermCreate, 'r': zk.PermRead, 'w': zk.PermWrite,
				'd': zk.PermDelete, 'a': zk.PermAdmin}[letter]
		}
		_, err = admin.SetACL(words[1], []zk.ACL{acl}, -1)
	default:
		t.Fatalf("the test does not know %q", words)
	}
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
}
