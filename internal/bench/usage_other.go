//go:build !linux

package bench

import "time"

func residentBytes() (int64, bool) { return 0, false }

// cpuTime is not measured here.
func cpuTime() time.Duration { return 0 }
