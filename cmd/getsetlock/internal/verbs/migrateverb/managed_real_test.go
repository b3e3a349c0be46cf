// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package migrateverb

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// managedRow is a row of the page's table: service, refused commands, the lock,
// wake-ups, monitor, what is lacking.
var managedRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(-.*)` \\| works \\| (yes|no) \\| (yes|no) \\| (.+) \\|$")

// Each service of docs/guide/managed.md is a user of a real server that is
// refused the same commands. The server has the memory policy that vendors
// begin with.
func TestManagedRedisBehavesAsThePageSays(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/guide/managed.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := managedRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 5 {
		t.Fatalf("the page has %d services", len(rows))
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			server := redistest.Real(t, redistest.Options{
				Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"}})
			refused := strings.Fields(strings.ReplaceAll(row[2], `\|`, "|"))
			s := clitest.OnReal(t, server)
			s.Vars["GETSETLOCK_REDIS"] = server.User("app", "s3cret",
				append([]string{"+@all", "~*", "&*"}, refused...)...)
			run := func(code int, line string, says ...string) clitest.Screen {
				t.Helper()
				got := s.Run(strings.Fields(line)...)
				if got.Code != code {
					t.Errorf("%s: exit code %d, want %d\n%s%s", line, got.Code, code, got.Out, got.Errors)
				}
				text := strings.Join(strings.Fields(got.Out), " ")
				for _, want := range says {
					if !strings.Contains(text, want) {
						t.Errorf("%s: does not say %q:\n%s", line, want, got.Out)
					}
				}
				return got
			}
			run(0, "run --namespace app k -- true")
			run(0, "run --protocol dual --lease 60s --ttl 10s k -- true")
			value := strings.Repeat("t", 22)
			server.Do("SET", "k", value, "PX", 60000)
			run(0, "ls *", "k held")
			run(0, "unlock --value "+value+" k")
			run(1, "doctor", "wake-ups (tracking): "+row[3], "volatile-lru")
			run(0, "migrate init --namespace app --dialect jedis --lease 60s")
			run(0, "migrate status --namespace app", "closed by eviction")
			heard := ""
			// A burst begins after some round trips were timed: on a busy
			// machine that takes longer.
			for span := 500 * time.Millisecond; ; span *= 2 {
				heard = run(0, "audit --monitor --for "+span.String()).Out
				done := strings.Contains(heard, "no right to MONITOR") || !strings.Contains(heard, "0 bursts")
				if done || span > 10*time.Second {
					break
				}
			}
			if used := !strings.Contains(heard, "no right to MONITOR"); used != (row[4] == "yes") {
				t.Errorf("MONITOR was used: %v\n%s", used, heard)
			}
			said := strings.Join(strings.Fields(heard+run(1, "doctor").Out), " ")
			for _, command := range strings.Split(row[5], ", ") {
				if !strings.Contains(said, command) {
					t.Errorf("%s is missing, and neither doctor nor audit says so:\n%s", command, said)
				}
			}
		})
	}
}

var managedUser = regexp.MustCompile("(?s)\n```\non (.*?)```\n")

// maySay is what doctor tries and then names as missing. CLIENT NO-TOUCH is
// Redis 7.2's, and its refusal is ignored.
var maySay = regexp.MustCompile(`^(config|config\|get|client|client\|no-touch|getsetlock:doctor:.*)$`)

// The page's line is that of modern.md, whose test tries it. Here the user has
// the rights that the page adds for the command.
func TestManagedUserMayUseTheCommand(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/guide/managed.md")
	if err != nil {
		t.Fatal(err)
	}
	modern, err := os.ReadFile("../../../../../docs/guide/modern.md")
	if err != nil {
		t.Fatal(err)
	}
	line := managedUser.FindStringSubmatch(string(page))
	added := regexp.MustCompile("also need\n`([^`]+)`").FindStringSubmatch(string(page))
	if line == nil || added == nil {
		t.Fatal("the page shows no user")
	}
	if !strings.Contains(string(modern), "ACL SETUSER app on >SECRET "+line[1]) {
		t.Error("the user of modern.md is another")
	}
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			server := binary.Start(t, redistest.Options{})
			s := clitest.OnReal(t, server)
			s.Vars["GETSETLOCK_REDIS"] = server.User("app", "s3cret",
				append(strings.Fields(line[1]), strings.Fields(added[1])...)...)
			for _, line := range []string{"run app:k -- true", "ls app:*", "doctor", "audit --for 200ms",
				"migrate init --namespace app: --dialect jedis --lease 60s",
				"migrate status --namespace app:"} {
				if got := s.Run(strings.Fields(line)...); got.Code > 1 {
					t.Errorf("%s: exit code %d\n%s%s", line, got.Code, got.Out, got.Errors)
				}
			}
			for _, entry := range server.Do("ACL", "LOG").([]any) {
				what := string(entry.([]any)[7].([]byte))
				if !maySay.MatchString(what) {
					t.Errorf("refused: %s", what)
				}
			}
		})
	}
}
