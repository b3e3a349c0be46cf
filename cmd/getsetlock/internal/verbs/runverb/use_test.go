// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

var wrongUses = map[string]string{
	"run --foo k -- true": "unknown flag: --foo; see getsetlock run --help",

	"run --ttl 0 k -- true": `"--ttl" flag: it must be more than zero; leave the flag out for the default`,

	"run --lease 0s k -- true": `"--lease" flag: it must be more than zero; leave the flag out for the dialect's lease`,

	"run --lease -1s k -- true": `"-1s" for "--lease" flag: it must be more than zero`,

	"run --protocol fast k -- true": `--protocol "fast" is unknown; write one of modern, legacy, dual, auto`,

	"run --behind -1s k -- true": `"-1s" for "--behind" flag: it can't be negative`,

	"run --protocol legacy --replicas 1 k -- true": "--replicas is for --protocol modern: a legacy lock",

	"run --namespace n --dialect jedis k -- true": "and --dialect selects legacy",

	"run --ttl 100ms --replicas 1 k -- true": "must be longer than the wait for replicas",

	"run --protocol legacy --ttl 59s k -- true": "--ttl 59s is too long: alongside Jedis clients with --lease 1m0s at most 58.001s is safe (--lease + c 1ms - --spread 1s (assumed) - --gap 1s (assumed))",

	"run":                                                 "write -- between",
	"run k true":                                          "write -- between",
	"run -- true":                                         "one KEY before --, not 0",
	"run a b -- true":                                     "one KEY before --, not 2",
	"run k --":                                            "no command after --",
	"run --wait x k -- true":                              "or forever",
	"run --busy-exit 256 k -- true":                       "write an exit code from 0 to 255",
	"run --busy-exit -1 k -- true":                        "write an exit code from 0 to 255",
	"run --busy-exit no k -- true":                        "write an exit code from 0 to 255",
	"run --wait -1s k -- true":                            "must not be negative",
	"run --ttl 5 k -- true":                               "missing unit in duration \"5\"; did you mean 5s?",
	"run --greatest 0s k -- true":                         "leave the flag out for the smallest lease",
	"run --keep -1s k -- true":                            "--keep is -1s",
	"run --grace -1s k -- true":                           "--grace -1s is negative",
	"run --grace 20s k -- true":                           "--grace: 20s does not fit a lease of 30s",
	"run --protocol auto k -- true":                       `name it by --namespace`,
	"run --protocol modern --dialect jedis k -- true":     "--dialect is for --protocol legacy",
	"run --protocol modern --dialect-file /x k -- true":   "--dialect-file is for --protocol legacy",
	"run --protocol modern --mode verbatim k -- true":     "--mode is for --protocol legacy",
	"run --protocol modern --lease 1s k -- true":          "--lease is for --protocol legacy",
	"run --protocol modern --spread 1s k -- true":         "--spread is for --protocol legacy",
	"run --protocol modern --gap 1s k -- true":            "--gap is for --protocol legacy",
	"run --protocol modern --behind 1s k -- true":         "--behind is for --protocol legacy",
	"run --mode verbatim --behind 1s k -- true":           "--behind is for --mode hardened",
	"run --greatest 30s k -- true":                        "--greatest 30s is less than --lease 1m0s",
	"run --namespace \u200b k -- true":                    `--namespace "\u200b": only printable`,
	"run --replicas -1 k -- true":                         "--replicas is -1; it must not be negative",
	"run --ttl 5ms k -- true":                             "--ttl 5ms is less than 10ms",
	"run --mode soft k -- true":                           `--mode "soft" is unknown`,
	"run --gap 2s --ttl 59s k -- true":                    "- --spread 1s (assumed) - --gap 2s)",
	"run --mode hardened --keep 1h k -- true":             "give it by --lease",
	"run --dialect page k -- true":                        "--lease",
	"run --mode verbatim --gap 1s k -- true":              "--gap is for --mode hardened",
	"run --mode verbatim --ttl 1s --lease 2s k -- true":   "the same thing",
	"run --mode verbatim --lease 2s --keep 3s k -- true":  "--keep 3s is longer than the lease (2s)",
	"run --mode verbatim --lease 2s --grace 2s k -- true": "leaves the command no time",
	"run --dialect jedis --dialect-file /x k -- true":     "give one",
	"run --redis redis://:s3cret@h:x k -- true":           "not a port",
}

func TestWrongUseOfRunIsExitCode125(t *testing.T) {
	s := clitest.NewStage(t)
	for line, says := range wrongUses {
		got := s.Run(strings.Fields(line)...)
		s.Want(got, 125, "", says)
		if !strings.HasPrefix(got.Errors, "getsetlock run: ") || strings.Count(got.Errors, "\n") != 1 {
			t.Errorf("%s: %q", line, got.Errors)
		}
	}
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %v", keys)
	}
}
