// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux && !darwin

package child

import "syscall"

// DiesWithParent reports whether the command ends when this process is killed
// by SIGKILL.
const DiesWithParent = false

func dieWithParent(*syscall.SysProcAttr) {}

// parentOf always returns 0, unknown. So a job started by a script counts as
// orphaned, and ^Z does not stop it.
func parentOf(int) int { return 0 }
