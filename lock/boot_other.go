// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lock

import "time"

// Boot returns no name: this system does not identify its boots.
func (machine) Boot() (id string, up time.Duration) { return "", 0 }
