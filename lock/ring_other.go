//go:build !linux

package lock

import "time"

// ring is nothing better than [Clock.After] on this system.
type ring struct{ rings chan time.Time }

func newRing(time.Duration) *ring { return nil }

func (*ring) stop() {}
