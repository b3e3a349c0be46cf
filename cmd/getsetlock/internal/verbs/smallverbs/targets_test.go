// SPDX-License-Identifier: Apache-2.0

package smallverbs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// stored returns a stage with a store in which two clients hold locks.
func stored(t *testing.T) (*clitest.Stage, *clitest.Memory) {
	s := clitest.NewStage(t)
	s.Vars = map[string]string{"GETSETLOCK_TARGET": "mem://here"}
	m := clitest.WithMemory(s)
	m.Take("stock/2", "b")
	m.Take("stock/1", "a")
	m.Take("nightly", "c")
	return s, m
}

func TestLsShowsTheLocksOfAStore(t *testing.T) {
	s, _ := stored(t)
	doc := clitest.AnswerOf(t, s.Run("ls", "--json"))
	var keys []any
	for _, l := range doc.All("locks") {
		keys = append(keys, l.At("key"))
	}
	if fmt.Sprint(keys) != "[nightly stock/1 stock/2]" || doc.At("schema") != "getsetlock.ls/1" {
		t.Fatal(doc)
	}
	for name, want := range map[string]any{
		"type": "thing", "state": "held", "protocol": "mem", "owner": "a", "note": "a note", "value": "7 a",
		"left_ms": 2000.0, "ttl_ms": 2000.0, "fence": 7.0, "waiters": 0.0, "dialect": nil, "name": nil,
		"age_ms": nil,
	} {
		if got := doc.At("locks.1." + name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, pattern := range []string{"stock*", "stock/?", "stock/1", `stock/\x31`, "stock/[1]"} {
		got := clitest.AnswerOf(t, s.Run("ls", "--json", pattern)).All("locks")
		if len(got) == 0 || got[0].At("key") != "stock/1" {
			t.Errorf("%s: %v", pattern, got)
		}
	}
	for _, pattern := range []string{"stock/*1", "*/1", "s*k/[1]"} {
		got := clitest.AnswerOf(t, s.Run("ls", "--json", pattern)).All("locks")
		if len(got) != 1 || got[0].At("key") != "stock/1" {
			t.Errorf("%s: %v", pattern, got)
		}
	}
	s.Want(s.Run("ls", "--target", "mem://there", "x*"), 0, "", "no locks found")
	if got := s.Run("ls"); !strings.Contains(got.Out, "mem") || got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// One lock may not be read. ls prints the others, and says what it could not
// see.
func TestLsShowsWhatAStoreLetsItSee(t *testing.T) {
	s, m := stored(t)
	m.Take("secret/1", "d")
	got := s.Run("ls")
	if got.Code != 3 || !strings.Contains(got.Out, "nightly") || strings.Contains(got.Out, "secret") ||
		!strings.Contains(got.Errors, "some locks may not be read") {
		t.Errorf("%+v", got)
	}
	got = s.Run("ls", "--json")
	if locks := clitest.AnswerOf(t, got).All("locks"); len(locks) != 3 || got.Code != 3 {
		t.Errorf("%+v", got)
	}
	s.Want(s.Run("ls", "secret*"), 3, "", "some locks may not be read")
	if got := s.Run("ls", "stock*"); got.Code != 0 || got.Errors != "" {
		t.Errorf("%+v", got)
	}
}

func TestUnlockFreesTheLocksOfAStore(t *testing.T) {
	s, m := stored(t)
	s.Want(s.Run("unlock", "nightly", "--value", "x"), 1, "",
		`"nightly" does not hold that value; it holds 7 c`)
	s.Want(s.Run("unlock", "nope", "--value", "x"), 1, "", "it is free")
	s.Want(s.Run("unlock", "nightly"), 2, "", "standard input is no terminal")
	s.Want(s.Run("unlock", "missing"), 0, "missing is free\n", "")
	s.Want(s.Run("unlock", "nightly", "--value", "7 c"), 0, "deleted nightly\n", "")
	s.Want(s.Run("unlock", "-y", "nightly"), 0, "nightly is free\n", "")
	s.Want(s.Run("unlock", "-y", "stock/*"), 0, "stock/* is free\n", "no pattern")
	s.Interactive, s.Stdin = true, "n\n"
	s.Want(s.Run("unlock", "stock/1"), 1, "", "stock/1 is held, by a, note a note, value 7 a, ")
	s.Stdin = "y\n"
	s.Want(s.Run("unlock", "stock/1"), 0, "deleted stock/1\n", "Delete it? [y/N]")
	m.Take("stock/1", "a")
	s.Want(s.Run("unlock", "stock/1", "--value", "a"), 0, "deleted stock/1\n", "") // the owner's token
	s.Want(s.Run("unlock", "stock/2"), 0, "deleted stock/2\n", "Delete it? [y/N]")
	if m.Holder("stock/1")+m.Holder("stock/2")+m.Holder("nightly") != "" {
		t.Error("a lock is left")
	}
	for _, line := range []string{"ls --dialect jedis", "ls --dialect-file f", "ls --namespace n",
		"ls --lease 1s",
		"unlock -y k --dialect jedis", "unlock -y k --dialect-file f"} {
		s.Want(s.Run(strings.Fields(line)...), 2, "", "is for locks on Redis: Memory has nothing like it")
	}
}
