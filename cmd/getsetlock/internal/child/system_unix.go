//go:build unix && !linux && !darwin

package child

import "syscall"

// DiesWithParent says whether the command ends when we are killed with SIGKILL.
const DiesWithParent = false

func dieWithParent(*syscall.SysProcAttr) {}

// parentOf does not know anybody's parent here: a job started by a script then counts as orphaned,
// and ^Z does not stop it.
func parentOf(int) int { return 0 }
