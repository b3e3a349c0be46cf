// SPDX-License-Identifier: Apache-2.0

package childtest

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// HeedSignals gives SIGHUP and SIGINT their default action in every program
// that the test process starts from now on. nohup starts a process with SIGHUP
// ignored, and a shell starts a background job with SIGINT ignored. Go keeps
// that, and programs inherit it: not even a shell can trap such a signal any
// more. The test process itself goes on as if it ignored them.
func HeedSignals() {
	for _, s := range inherited {
		if signal.Ignored(s) {
			// exec gives a caught signal its default action.
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// inherited are the signals that a Go process keeps ignoring if it was started
// so.
var inherited = []os.Signal{syscall.SIGHUP, syscall.SIGINT}

// PassIgnored runs the named tests of this test binary once more with SIGHUP
// and SIGINT ignored, as nohup and a shell's background job start it.
func PassIgnored(t *testing.T, tests ...string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `trap '' HUP INT; exec "$0" "$@"`,
		os.Args[0], "-test.timeout=1m", "-test.run=^("+strings.Join(tests, "|")+")$", "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("with SIGHUP and SIGINT ignored: %v\n%s", err, out)
	}
	for _, name := range tests {
		if !strings.Contains(string(out), "=== RUN   "+name+"\n") {
			t.Errorf("there is no test %s:\n%s", name, out)
		}
	}
}
