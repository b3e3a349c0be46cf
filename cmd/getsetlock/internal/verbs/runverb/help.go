// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"runtime"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
)

// diesWithUs says what happens to the command on this system when getsetlock is
// killed. It continues the sentence in runLong.
var diesWithUs = func() string {
	switch {
	case runtime.GOOS == "windows":
		return `so are the command and all that it started.
Windows has no SIGTERM: the group gets Ctrl-Break instead, and processes that
the command leaves behind are ended with it.`
	case child.DiesWithParent:
		return `so is the command, but not what the command itself
started, nor a set-uid program; on systems other than Linux and Windows the
command lives on.`
	}
	return `the command lives on here, while the lock ends after
its TTL (on Linux and Windows the command is killed too).`
}()
