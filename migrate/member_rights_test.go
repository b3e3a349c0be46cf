// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// TestRefusedMemberNamesWhatItsScriptsCall: an operator grants what the error
// and docs/guide/migration.md list, so a command that is missing there keeps
// members out.
func TestRefusedMemberNamesWhatItsScriptsCall(t *testing.T) {
	said := (&Member{}).refused("write", "gsl:roster:stock", redis.Error("NOPERM no permissions")).Error()
	page, err := os.ReadFile("../docs/guide/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, found := strings.Cut(string(page), "members: GET, ")
	listed, _, _ = strings.Cut(listed, "EVALSHA")
	if !found {
		t.Fatal("docs/guide/migration.md does not list the members' rights")
	}
	call := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	commands := []string{"HINCRBY", "PEXPIRE", "HSCAN"} // sent outside scripts
	for _, file := range []string{"beat.lua", "fold.lua"} {
		source, err := os.ReadFile("../internal/record/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(source), -1) {
			commands = append(commands, m[1])
		}
	}
	if len(commands) < 8 {
		t.Fatalf("the scripts call no more than %v", commands)
	}
	for _, command := range commands {
		word := regexp.MustCompile(`\b` + command + `\b`)
		if !word.MatchString(said) {
			t.Errorf("the error does not name %s: %s", command, said)
		}
		if !word.MatchString(listed) {
			t.Errorf("docs/guide/migration.md does not name %s", command)
		}
	}
}
