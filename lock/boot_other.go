//go:build !linux

package lock

import "time"

// Boot says that the system names no boot.
func (machine) Boot() (id string, up time.Duration) { return "", 0 }
