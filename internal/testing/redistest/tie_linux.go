package redistest

import (
	"os/exec"
	"syscall"
)

// tie ends the process when ours ends, even if ours is killed. The kernel watches the thread that
// started it, not the process: Go ends a thread only when a goroutine locked to it returns, and no
// test of ours does that.
func tie(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
