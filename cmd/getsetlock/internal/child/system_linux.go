package child

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// DiesWithParent says whether the command ends when we are killed with SIGKILL.
const DiesWithParent = true

// dieWithParent asks for SIGKILL, not SIGTERM: there will be nobody left to insist.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// parentOf returns 0 if the process is not known.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything, a closing one too.
	text := string(stat)
	var state byte
	var parent int
	if _, err := fmt.Sscanf(text[strings.LastIndexByte(text, ')')+1:], " %c %d", &state, &parent); err != nil {
		return 0
	}
	return parent
}
