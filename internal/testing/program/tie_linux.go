// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os/exec"
	"syscall"
)

// Tie makes the kernel end the process when this process ends, even if this
// process is killed. The kernel watches the thread that started the process. Go
// ends a thread only when a goroutine locked to it returns, and no test does
// that.
func Tie(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
