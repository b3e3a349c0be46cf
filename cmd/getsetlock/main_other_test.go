// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

const becomeReaper = "-become-reaper"

// reaper does nothing: outside Linux only PID 1 adopts orphans.
func reaper([]string) {}
