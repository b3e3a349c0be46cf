//go:build unix && !linux

package main

const becomeReaper = "-become-reaper"

// reaper is for Linux: elsewhere nothing but PID 1 adopts orphans.
func reaper([]string) {}
