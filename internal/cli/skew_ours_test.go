package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// Each protocol is played. Where old clients are kept out, nobody holds beside anybody; where they are
// not, nobody does more than the law allows, and two of ours never.
func TestSimulationPlaysEveryProtocol(t *testing.T) {
	for _, args := range []string{
		"--job 2s --lease 5s", "--job 1s..7s --lease 5s --spread 200ms", "--job 500ms --lease 2s --preset leap",
		"--job exp:1s --lease 3s --dialect setdel", "--job 1s --lease 20s --dialect JedisUUID",
	} {
		for _, protocol := range skewProtocols[1:] {
			got := skewed(t, append(strings.Fields(args), "--json", "--protocol", protocol)...)
			var doc skewDocument
			if err := json.Unmarshal([]byte(got.out), &doc); err != nil || doc.Simulation == nil || doc.Simulation.Ours == nil {
				t.Fatalf("%s %s: %v\n%s%s", protocol, args, err, got.out, got.errors)
			}
			sim, o := doc.Simulation, doc.Simulation.Ours
			alone := protocol == "sealed" || protocol == "modern"
			if o.Acquisitions < 100 || o.BesideOurs > 0 || alone && sim.Overlapped > 0 || alone != (o.Clients == sim.Clients) ||
				sim.Overlapped > 0 && !doc.Law.TwoHolders {
				t.Errorf("%s %s: %s", protocol, args, got.out)
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

func TestSkewSaysByWhatLeasesOfOursAreLost(t *testing.T) {
	for args, says := range map[string]string{
		"--protocol hardened --lease 5s --job 1s..7s":              "by an overrun client's DEL",
		"--protocol dual --dialect pagenil --lease 5s --job 100ms": "by a GETSET after a missing key",
		"--protocol observe --lease 5s --job 1s --spread 4s":       "told of them they would refuse to take part",
		"--protocol modern --lease 60ms --job 1s --preset jvm-gc":  "only fencing keeps out",
	} {
		got := skewed(t, strings.Fields(args)...)
		if !strings.Contains(got.out, says) {
			t.Errorf("%s does not say %q, but\n%s", args, says, got.out)
		}
	}
}
