// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// DiesWithParent reports whether the command ends when this process is killed
// by SIGKILL.
const DiesWithParent = true

// dieWithParent asks for SIGKILL and not SIGTERM, since nothing could kill the
// command later.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// parentOf returns the process id of pid's parent, and 0 if it is unknown.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain any character, a closing
	// parenthesis too.
	text := string(stat)
	var state byte
	var parent int
	if _, err := fmt.Sscanf(text[strings.LastIndexByte(text, ')')+1:], " %c %d", &state,
		&parent); err != nil {
		return 0
	}
	return parent
}
