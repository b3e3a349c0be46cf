// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// Verbs stand in the order in which a new user needs them, a verb's own flags
// before those that others have too, the commonest first.
func TestHelpShowsGroupsInTheOrderOfUse(t *testing.T) {
	s := clitest.NewStage(t)
	clitest.Transcript(t, "testdata/help.txt", func(args ...string) clitest.Screen {
		got := s.Run(args...)
		if got.Code != 0 || got.Errors != "" {
			t.Errorf("%q: %+v", args, got)
		}
		return got
	})
	for _, line := range []string{"", "help"} {
		s.Want(s.Run(strings.Fields(line)...), 0, s.Run("--help").Out, "")
	}
	for _, c := range Root(&out.Env{}).Commands() {
		if !c.Hidden && c.GroupID == "" && c.Name() != "help" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}

// A flag that is in no group would be the last thing that a reader of --help
// sees. ownFlags and sharedFlags in groups.go have the groups.
func TestEveryFlagHasAGroup(t *testing.T) {
	root := Root(&out.Env{})
	for _, c := range append(root.Commands(), root) {
		if _, known := ownFlags[c.Name()]; !known && !c.Hidden {
			t.Errorf("ownFlags lacks %s", c.Name())
		}
		for _, g := range flagGroups(c) {
			for _, f := range g.Flags {
				if g.Title == ungrouped && !c.Hidden {
					t.Errorf("%s --%s is in no group", c.Name(), f.Name)
				}
			}
		}
	}
}

// A server of Redis on the same machine is not what the variable names. Verbs
// for Redis ask no server then.
func TestVerbsOfRedisRefuseTheVariableOfAStore(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars = map[string]string{"GETSETLOCK_TARGET": "etcd://h"}
	const says = "$GETSETLOCK_TARGET names another store, and this is for Redis: name a server by --redis; run, hold, wait,"
	for _, line := range []string{"doctor", "audit --for 1s", "migrate status"} {
		s.Want(s.Run(strings.Fields(line)...), 2, "", says)
	}
	if got := s.Run("doctor", "--redis", s.World.URL()); got.Code != 0 || got.Errors != "" {
		t.Errorf("%+v", got)
	}
	s.Vars["GETSETLOCK_REDIS"] = s.World.URL()
	if got := s.Run("doctor"); got.Code != 0 || got.Errors != "" {
		t.Errorf("%+v", got)
	}
}

func TestVersionFlagPrintsWhatTheVerbPrints(t *testing.T) {
	s := clitest.NewStage(t)
	verb := s.Run("version")
	if verb.Code != 0 || !strings.HasPrefix(verb.Out, "getsetlock ") {
		t.Fatalf("%+v", verb)
	}
	s.Want(s.Run("--version"), 0, verb.Out, "")
	if slices.Contains(strings.Fields(s.Run("ls", "--help").Out), "--version") {
		t.Error("ls has --version too")
	}
}
