//go:build !linux

package main

import "time"

func residentBytes() (int64, bool) { return 0, false }

// cpuTime returns 0: it is not measured on this system.
func cpuTime() time.Duration { return 0 }
