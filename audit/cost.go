package audit

import (
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
)

// Cost is what looking cost the server, measured in the same run.
type Cost struct {
	Looks   int64         // keys looked at
	Scans   int64         // calls of SCAN
	Elapsed time.Duration // of the whole watch
	// ServerTime is how long the server worked for our looks at the most, by its own clock from the
	// first look of a message to behind the last; Share is that of Elapsed, a fraction of one core. Known once a
	// key was looked at by script.
	ServerTime time.Duration
	Share      float64
	HasShare   bool
	Monitor    *MonitorCost // nil without MONITOR
}

// MonitorCost is the price of MONITOR's bursts.
type MonitorCost struct {
	Bursts    int
	Time      time.Duration // on, together
	Bytes     int64
	Lines     int64
	Unread    int64         // lines that were none
	PingOff   time.Duration // median round trip on another connection, without MONITOR
	PingOn    time.Duration // with it
	OpsOff    float64       // commands a second that the server executed without it, 0 unknown
	OpsOn     float64
	Stopped   []string // why bursts ended before their time
	Throttled bool     // a burst ended because latency or our buffer grew; the next ones were shorter
}

// Result is what a watch comes to.
type Result struct {
	Evidence census.Evidence
	Findings []census.Finding // sorted, those of the writers among them
	Cost     Cost             // zero in a replay
	// Probe is what a probe had found before, as the record of a replay has it; nil where there is none.
	Probe *ProbeResult
}
