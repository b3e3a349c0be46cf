package skewverb

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// The test simulates each protocol. Where old clients are kept out, no client
// holds together with another. Elsewhere no client does more than the law
// allows. Two getsetlock clients never hold together.
func TestSimulationPlaysEveryProtocol(t *testing.T) {
	for _, args := range []string{
		"--job 2s --lease 5s", "--job 1s..7s --lease 5s --spread 200ms",
		"--job 500ms --lease 2s --preset leap",
		"--job exp:1s --lease 3s --dialect setdel", "--job 1s --lease 20s --dialect JedisUUID",
	} {
		for _, protocol := range skewProtocols[1:] {
			got := skewed(t, append(strings.Fields(args), "--json", "--protocol", protocol)...)
			var doc Document
			if err := json.Unmarshal([]byte(got.Out), &doc); err != nil || doc.Simulation == nil ||
				doc.Simulation.Ours == nil {
				t.Fatalf("%s %s: %v\n%s%s", protocol, args, err, got.Out, got.Errors)
			}
			sim, o := doc.Simulation, doc.Simulation.Ours
			alone := protocol == "sealed" || protocol == "modern"
			if o.Acquisitions < 100 || o.BesideOurs > 0 || alone && sim.Overlapped > 0 ||
				alone != (o.Clients == sim.Clients) ||
				sim.Overlapped > 0 && !doc.Law.TwoHolders {
				t.Errorf("%s %s: %s", protocol, args, got.Out)
			}
			sum := int64(0)
			for _, n := range o.LostBy {
				sum += n
			}
			if sum != o.Lost || len(o.LostBy) != 7 {
				t.Errorf("%s %s: %d lost, by %v", protocol, args, o.Lost, o.LostBy)
			}
		}
	}
}

func TestSkewSaysWhyLeasesAreLost(t *testing.T) {
	for args, says := range map[string]string{
		"--protocol observe --lease 5s --job 1s --spread 4900ms": "otherwise they would refuse to take part",

		"--protocol hardened --lease 5s --job 1s..7s":              "by an overrun client's DEL",
		"--protocol dual --dialect pagenil --lease 5s --job 100ms": "by a GETSET after a missing key",
		"--protocol modern --lease 60ms --job 1s --preset jvm-gc":  "only fencing numbers keep out",
	} {
		got := skewed(t, strings.Fields(args)...)
		if !strings.Contains(got.Out, says) {
			t.Errorf("%s does not say %q, but\n%s", args, says, got.Out)
		}
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
			"NO: two clients cannot hold the lock at once", "two clients never hold at once"},
		"--ahead 10m --explore": {
			"NO: two clients cannot hold the lock at once", "two clients never hold at once"},
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
		var doc map[string]any
		if err := json.Unmarshal([]byte(got.Out), &doc); err != nil ||
			!strings.Contains(strings.Join(strings.Fields(got.Out), ""), want) {
			t.Errorf("%s: %v, no %s in\n%s", args, err, want, got.Out)
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

// "0s" is a claim, and an absent flag is not: getsetlock clients then use their
// defaults.
func TestSkewTellsZeroFromAnAbsentFlag(t *testing.T) {
	job, err := dist.Parse("1s")
	if err != nil {
		t.Fatal(err)
	}
	for spread, want := range map[time.Duration]time.Duration{
		0: time.Second, dialect.Zero: dialect.Zero, 3 * time.Second: 3 * time.Second} {
		q := skewQuestion{protocol: "dual", dialect: dialect.Jedis(), job: job, latency: usualLatency,
			clients: 4, spread: spread}
		a, err := q.answer()
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.simulation(a.protocol, a.spread)
		if err != nil {
			t.Fatal(err)
		}
		if terms, err := a.dialect.Terms(s.Ours.Terms); err != nil || terms.Spread != want {
			t.Errorf("--spread %d: getsetlock clients assume %v, %v", spread, terms.Spread, err)
		}
	}
}
