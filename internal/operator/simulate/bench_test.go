// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"
	"time"
)

// The plain case: four clients, constant times. One iteration is one
// acquisition.
func BenchmarkSimulatePlain(b *testing.B) { benchmarkSimulate(b, plainFleet()) }

// Jobs, latencies, drift, steps and pauses are drawn.
func BenchmarkSimulateEverything(b *testing.B) {
	s := plainFleet()
	s.Job, s.Latency = mustParse(b, "lognormal:p50=20ms,p99=200ms"), mustParse(b, "exp:300us")
	s.Clocks = Clocks{Low: -ms, High: ms, PPM: 30, Step: Steps{Kind: StepInward, By: ms, Every: time.Minute},
		Pauses: []Pause{{50 * ms, 3 * sec}}}
	benchmarkSimulate(b, s)
}

func BenchmarkSimulateHundredClients(b *testing.B) {
	s := plainFleet()
	s.Clients = 100
	benchmarkSimulate(b, s)
}

func benchmarkSimulate(b *testing.B, s Fleet) {
	s.Acquisitions = int64(b.N)
	m, err := New(s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for m.Run(1 << 16) {
	}
	b.ReportMetric(float64(m.tally.acquisitions)/b.Elapsed().Seconds(), "acquisitions/s")
	b.ReportMetric(float64(m.tally.commands)/b.Elapsed().Seconds(), "commands/s")
}
