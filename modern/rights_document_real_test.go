// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

var userLine = regexp.MustCompile("(?s)\n```\nACL SETUSER app on >SECRET (.*?)```\n")

// A user made by the document's line can wait, draw numbers and watch as
// described. The server's log shows no refusal.
func TestUserOfTheDocumentLacksNoRight(t *testing.T) {
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	found := userLine.FindStringSubmatch(string(raw))
	if found == nil {
		t.Fatalf("%s shows no user", document)
	}
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			rules := strings.Fields(found[1])
			for _, native := range []string{"delex", "delifeq"} {
				if s.Do("COMMAND", "INFO", native).([]any)[0] != nil {
					rules = append(rules, "+"+native)
				}
			}
			pool := urlPool(s.User("u", "pw", rules...))
			for name, cfg := range map[string]modern.Config{
				"plain": {}, "fence": {Fence: true}, "fair": {Fair: true}} {
				if err := handOff(t, pool, cfg, lock.Config{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				b := openOn(t, pool, cfg)
				l := acquire(t, client(t, b, lock.Config{}), "app:k")
				if err := l.Renew(bg); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if info, err := b.Inspect(bg, "app:k"); err != nil || info.Token != l.Token() {
					t.Errorf("%s: %+v, %v", name, info, err)
				}
				if err := l.Release(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// see the document
			withRole := urlPool(s.User("behind-sentinel", "pw", append(rules, "+role")...))
			c := withRole.Get()
			if _, err := c.Do("ROLE"); err != nil ||
				!strings.Contains(string(raw), "an address of `redis+sentinel://` adds `+role`") {
				t.Error(err)
			}
			c.Close()
			if refused := s.Do("ACL", "LOG").([]any); len(refused) > 0 {
				t.Errorf("refused: %q", refused)
			}
		})
	}
}
