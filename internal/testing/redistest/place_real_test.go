// SPDX-License-Identifier: Apache-2.0

//go:build real

package redistest

import (
	"strings"
	"testing"
)

// Two tests that look for a free port at the same time may get the same one.
// The second test must not take the first one's server for its own.
func TestServerRefusesATakenPort(t *testing.T) {
	first := Real(t, Options{})
	_, port, _ := strings.Cut(first.addr, ":")
	second := &Server{t: t, o: first.o, dir: t.TempDir(), addr: first.addr}
	second.args = second.arguments(port)
	t.Cleanup(second.Kill)
	if err := second.launch(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the port is taken, but launch returned %v", err)
	}
}
