// SPDX-License-Identifier: Apache-2.0

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// DiesWithParent reports whether the command ends when this process is killed
// by SIGKILL.
const DiesWithParent = false

func dieWithParent(*syscall.SysProcAttr) {}

// parentOf returns the process id of pid's parent, and 0 if it is unknown.
func parentOf(pid int) int {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return int(info.Eproc.Ppid)
}
