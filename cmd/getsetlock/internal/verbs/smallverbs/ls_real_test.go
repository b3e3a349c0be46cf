// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package smallverbs

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestLsFindsWrappedKeysByPatternOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := b.Start(t, redistest.Options{})
			server.Do("SET", clitest.Springs, clitest.StampOf(time.Now().Add(time.Minute)))
			server.Do("SET", "stock", clitest.StampOf(time.Now().Add(time.Minute)))
			server.Do("HSET", "hash", "a", "b")
			s := clitest.OnReal(t, server)
			for _, pattern := range []string{"", "stock", "st*", out.Escaped(clitest.Springs[:5]) + "*"} {
				locks := clitest.AnswerOf(t, s.Run("ls", "--json", pattern)).All("locks")
				want := 2
				if strings.HasPrefix(pattern, `\`) {
					want = 1
				}
				if len(locks) != want || locks[want-1].At("encoding") != "jdk" {
					t.Errorf("%q: %v", pattern, locks)
				}
			}
			s.Want(s.Run(clitest.Script("", "k", "echo ran")...), 0, "ran\n", "")
			s.Want(s.Run(clitest.Script("--mode verbatim -q", "k", "echo ran")...), 0, "ran\n", "")
			s.Want(s.Run(clitest.Script("--keep 5s", "k", "echo ran")...), 0, "ran\n", "")
			s.Want(s.Run("unlock", "k", "--value", clitest.ValueOf(s, "k")), 0,
				"deleted k and the getsetlock client's token that held it\n", "")
		})
	}
}
