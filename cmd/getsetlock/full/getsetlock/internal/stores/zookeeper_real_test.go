// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"fmt"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
)

// One server, since it takes seconds to start.
func TestCommandTakesTheLocksOfZooKeeper(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t).Addr
	c := zktest.Curator(t, 30_000, server)
	s := on(t, "zookeeper://"+server+"/locks")
	t.Run("turns with Curator", func(t *testing.T) {
		contend(t, s, "nightly", 20, 50, func(n *counter) {
			must(t, c, "count", "/locks/nightly", n.file, 50)
		})
	})
	t.Run("ls and unlock", func(t *testing.T) { lookAndUnlock(t, s, c) })
	t.Run("rights", func(t *testing.T) { usersAndRights(t, server) })
}

func lookAndUnlock(t *testing.T, s *clitest.Stage, c *program.Peer) {
	must(t, c, "acquire", "/locks/shop/stock", 60000)
	held, end := holding(s, "stock")
	defer end()
	next := s.Start("run", "--wait", "forever", "shop/stock", "--", "echo", "woken")
	next.Errors.Await("waiting:")
	locks := clitest.AnswerOf(t, s.Run("ls", "--json")).All("locks")
	words := strings.Fields(held.Out.String()) // held TOKEN FENCE
	if len(locks) != 2 {
		t.Fatal(locks)
	}
	theirs, ours := locks[0], locks[1]
	if theirs.At("key") != "shop/stock" || theirs.Number("waiters") != 1 || theirs.At("owner") == nil ||
		theirs.At("type") != "node" {
		t.Error(theirs)
	}
	if ours.At("key") != "stock" || ours.At("owner") != words[1] ||
		ours.At("note") != "host7 getsetlock-hold" || ours.At("until") != nil ||
		ours.At("protocol") != "zookeeper" || clitest.Decimal(int64(ours.Number("fence"))) != words[2] {
		t.Error(ours)
	}
	s.Want(s.Run("run", "--wait", "0", "stock", "--", "true"), 124, "", `held by "host7 getsetlock-hold"`)
	s.Want(s.Run("unlock", "stock", "--value", fmt.Sprint(theirs.At("value"))), 1, "",
		"does not hold that value")
	s.Want(s.Run("unlock", "stock", "--value", fmt.Sprint(ours.At("value"))), 0, "deleted stock\n", "")
	if got := <-held.Done; got.Code != 123 {
		t.Errorf("the holder: %+v", got)
	}
	must(t, c, "release", "/locks/shop/stock")
	if got := <-next.Done; got.Code != 0 || got.Out != "woken\n" {
		t.Errorf("not woken: %+v", got)
	}
}

func usersAndRights(t *testing.T, server string) {
	ann := func(password string) *clitest.Stage {
		s := on(t, "zookeeper://ann@"+server+"/private")
		s.Vars["GETSETLOCK_PASSWORD"] = password
		return s
	}
	held, done := holding(ann("s3cret"), "k") // so that no parent is deleted
	wrong := ann("wrong")
	wrong.Want(wrong.Run("run", "k", "--", "true"), 122, "", "give the user rights")
	bob := on(t, "zookeeper://"+server+"/private")
	bob.Want(bob.Run("run", "--wait", "0", "k", "--", "true"), 122, "", "give the user rights")
	bob.Want(bob.Run("ls"), 3, "", "may not read")
	_, end := holding(on(t, "zookeeper://"+server+"/public"), "k")
	defer end()
	all := on(t, "zookeeper://"+server)
	if got := all.Run("ls"); got.Code != 3 || !strings.Contains(got.Out, "public/k") ||
		!strings.Contains(got.Errors, "may not read /private") {
		t.Errorf("ls where a node may not be read: %+v", got)
	}
	bob.Want(bob.Run("run", "--ttl", "100ms", "k", "--", "true"), 125, "", "--ttl is 100ms")
	done()
	if got := <-held.Done; got.Code != 0 {
		t.Errorf("a hold with the user's password: %+v", got)
	}
}
