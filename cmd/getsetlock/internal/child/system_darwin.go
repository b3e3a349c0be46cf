package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// DiesWithParent says whether the command ends when we are killed with SIGKILL.
const DiesWithParent = false

func dieWithParent(*syscall.SysProcAttr) {}

// parentOf returns 0 if the process is not known.
func parentOf(pid int) int {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return int(info.Eproc.Ppid)
}
