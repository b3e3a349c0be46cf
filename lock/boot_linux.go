// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID identifies this boot of the machine, and the time namespace of this
// process, which may shift the uptime. It is empty if the system hides them.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !os.IsNotExist(err) {
		return ""
	}
	return strings.TrimSpace(string(id)) + "/" + space
})

func (machine) Boot() (id string, up time.Duration) {
	var t unix.Timespec
	if id = bootID(); id == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return "", 0
	}
	return id, time.Duration(t.Nano())
}
