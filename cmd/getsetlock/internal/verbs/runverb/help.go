package runverb

import (
	"runtime"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
)

// diesWithUs says what becomes of the command when we are killed, on this system.
var diesWithUs = func() string {
	switch {
	case runtime.GOOS == "windows":
		return `so are the
command and all that it started. There is no SIGTERM on Windows: the group is sent
Ctrl-Break instead, and what the command leaves behind is ended with it.`
	case child.DiesWithParent:
		return `so is the
command, but not what the command itself started, nor a set-uid program; on systems
other than Linux and Windows the command lives on.`
	}
	return `the
command lives on here, while the lock ends after its TTL (on Linux and Windows it
is killed too).`
}()
