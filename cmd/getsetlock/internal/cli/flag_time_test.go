// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

// zeroIsTheDefault has the time flags whose absence means zero, and those with
// a default that 0s replaces.
var zeroIsTheDefault = map[string]string{
	"run --wait":        "0 tries once, and the default is 10s",
	"run --keep":        "a key that is not kept is kept for no time",
	"run --grace":       "0s kills at once; whether it was given is remembered",
	"hold --wait":       "0 tries once, and the default is 10s",
	"hold --keep":       "a key that is not kept is kept for no time",
	"hold --grace":      "0s holds until the lock ends; whether it was given is remembered",
	"wait --wait":       "0 looks once, and the default is forever",
	"migrate --wait":    "0s does not wait, and the default is 30s",
	"audit --for":       "0 watches until it is interrupted",
	"doctor --watch":    "without it nothing is watched",
	"rehearse --spread": "clocks that are not set apart are equal",
	"skew --spread":     "clocks that are not set apart are equal",
	"skew --delay":      "a client that is not delayed writes at once",
}

// argsOf completes a command line, so that only the flag can be wrong.
func argsOf(verb string) []string {
	switch verb {
	case "run":
		return []string{"k", "--", "true"}
	case "hold", "wait":
		return []string{"k"}
	case "migrate":
		return []string{"plan", "--namespace", "n"}
	case "skew":
		return []string{"--job", "1s"}
	}
	return nil
}

// An explicit zero is a value and not an absent flag. It is a claim, or it is
// refused, or it means the same as an absent flag.
func TestTimeFlagsTakeZeroAsAValue(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Root(&out.Env{}).Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := c.Name() + " --" + f.Name
			if f.Value.Type() != "duration" {
				return
			}
			seen[name] = true
			if claim, ok := f.Value.(*out.ClaimFlag); ok {
				if err := claim.Set("0s"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if d, claimed := dialect.Claimed(time.Duration(*claim)); !claimed || d != 0 ||
					claim.String() != "0s" {
					t.Errorf("%s 0s claims %v, %v", name, d, claimed)
				}
				return
			}
			if zeroIsTheDefault[name] != "" {
				return
			}
			s := clitest.NewStage(t)
			got := s.Run(append([]string{c.Name(), "--" + f.Name, "0s"}, argsOf(c.Name())...)...)
			if got.Code != 2 && got.Code != 125 || !strings.Contains(got.Errors, "--"+f.Name) {
				t.Errorf("%s 0s: code %d, %s", name, got.Code, got.Errors)
			}
		})
	}
	for name := range zeroIsTheDefault {
		if !seen[name] {
			t.Errorf("%s is no flag of time", name)
		}
	}
}
