// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

// Getsetlock clients are not simulated. Where old clients take the lock, these
// are simulated alone, and the answer names what shows the real clients.
func TestSimulationPlaysOldClientsAlone(t *testing.T) {
	for _, protocol := range skewProtocols {
		got := skewed(t, "--job", "2s", "--lease", "5s", "--json", "--protocol", protocol)
		simulated := clitest.AnswerOf(t, got).At("simulation") != nil
		if alone := protocol == "sealed" || protocol == "modern"; alone == simulated {
			t.Errorf("%s: %s", protocol, got.Out)
		}
		got = skewed(t, "--job", "2s", "--lease", "5s", "--protocol", protocol)
		if named := strings.Contains(got.Out, "getsetlock rehearse --preset NAME --protocol "); named ==
			(protocol == "verbatim") {
			t.Errorf("%s: %s", protocol, got.Out)
		}
	}
	got := skewed(t, "--job", "2s", "--protocol", "modern", "--explore")
	if got.Code != 2 || !strings.Contains(got.Errors, "--explore searches old clients' commands") {
		t.Errorf("code %d, %q", got.Code, got.Errors)
	}
}

// The bounds on the server's clock decide how a getsetlock client takes over,
// and the answer has them. A bound that was not given is unknown, not zero.
func TestSkewSaysWhatTheServersClockDoes(t *testing.T) {
	for args, says := range map[string][]string{
		"--behind 2m": {
			"more than 2m0s past its stamp", "more than 2m40.001s behind the server's would lose",
			"slowest clock behind the server's", "2m0s"},
		"--behind 0s":            {"more than 0s past its stamp", "more than 40.001s behind"},
		"--spread 1s":            {"saw the same value twice, more than 1m0.002s apart", "unknown"},
		"--ahead 10m":            {"lies 24h10m0s beyond the end of its lease"},
		"--behind 1s --ahead 1s": {"more than 1s past its stamp", "24h0m1s"},
		"--preset fail-over": {
			"saw the same value twice", "to a server whose clock is 2 minutes ahead"},
		"--behind 10m --explore": {
			"NO: two clients cannot hold the lock at once", "of 2 old clients",
			"two clients never hold at once"},
		"--dialect setdel --ahead 1s": {"NO"},
	} {
		got := skewed(t, append(strings.Fields("--protocol hardened --lease 60s --job 20s"),
			strings.Fields(args)...)...)
		for _, want := range says {
			if got.Code != 0 || !strings.Contains(got.Out, want) {
				t.Errorf("%s: %d, no %q in\n%s%s", args, got.Code, want, got.Out, got.Errors)
			}
		}
	}
	for args, want := range map[string]string{
		"--behind 0s": `"behind_ms":0,"ahead_ms":null`, "--ahead 1s": `"behind_ms":null,"ahead_ms":1000`,
		"--spread 0s": `"spread_ms":0,"behind_ms":null`,
	} {
		got := skewed(t, append(strings.Fields("--protocol dual --lease 60s --job 20s --json"),
			strings.Fields(args)...)...)
		if !strings.Contains(strings.Join(strings.Fields(got.Out), ""), want) {
			t.Errorf("%s: no %s in\n%s", args, want, got.Out)
		}
	}
	for args, want := range map[string]string{
		"--spread 5s --behind 1s --ahead 2s": "at most 3s apart",
		"--preset leap --behind 1s":          "leave one out", "--behind -1s": "can't be negative",
	} {
		if got := skewed(t, append([]string{"--job", "1s"}, strings.Fields(args)...)...); got.Code != 2 ||
			!strings.Contains(got.Errors, want) {
			t.Errorf("%s: %d, %q", args, got.Code, got.Errors)
		}
	}
}

// Without --lease the answer is for the dialect's own, and says that a
// getsetlock client does not take that for the fleet's greatest.
func TestSkewSaysThatNobodyStatedALease(t *testing.T) {
	for args, stated := range map[string]bool{
		"--protocol hardened": false, "--protocol dual --lease 60s": true,
		"--protocol hardened --behind 1s": true, // nobody asks for a second look
	} {
		got := skewed(t, append([]string{"--job", "20s"}, strings.Fields(args)...)...)
		says := strings.Contains(got.Out, "Until somebody states that") &&
			strings.Contains(got.Out, "later, if a lease is stated")
		if got.Code != 0 || says == stated {
			t.Errorf("%s: %d\n%s%s", args, got.Code, got.Out, got.Errors)
		}
	}
}
