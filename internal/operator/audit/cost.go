// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// Cost is what the watch cost the server, measured during the watch.
type Cost struct {
	Looks   int64         `json:"looks"` // keys looked at
	Scans   int64         // SCAN commands sent
	Elapsed time.Duration // of the whole watch
	// ServerTime is an upper bound of the time that the server spent on the
	// watch's looks. It is measured by the server's clock, from the first look
	// of a message until after the last. Share is ServerTime as a fraction of
	// Elapsed: of one core. Both are zero until a key was looked at by script.
	ServerTime time.Duration `json:"server_time_ms" answer:"null"`
	Share      float64       `json:"share" answer:"null"`
	Monitor    *MonitorCost  `answer:"inline"` // nil without MONITOR
}

// MonitorCost is what the bursts of MONITOR cost.
type MonitorCost struct {
	Bursts    int           `json:"monitor_bursts"`           // number of bursts of MONITOR
	Time      time.Duration `json:"monitor_ms" answer:"null"` // total time that MONITOR was on
	Bytes     int64
	Lines     int64         `json:"monitor_lines"`             // commands that it showed
	PingOff   time.Duration `json:"ping_off_ms" answer:"null"` // median round trip elsewhere, without MONITOR
	PingOn    time.Duration `json:"ping_on_ms" answer:"null"`  // with it
	OpsOff    float64       `json:"ops_off" answer:"null"`     // commands a second, of the server, without it
	OpsOn     float64       `json:"ops_on" answer:"null"`      // with it
	Stopped   []string      // why bursts ended early
	Throttled bool          // a burst ended because latency or our buffer grew; the next ones were shorter
}

// Result is what a watch or a replay found.
type Result struct {
	Evidence census.Evidence
	Findings []census.Finding // sorted; findings about writers included
	Cost     Cost             // zero in a replay
}
