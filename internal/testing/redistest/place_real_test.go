// SPDX-License-Identifier: Apache-2.0

//go:build real

package redistest

import (
	"net"
	"strings"
	"testing"
)

// Two tests that look for a free port at the same time may get the same one.
// The second test must not take the first one's server for its own.
func TestServerRefusesATakenPort(t *testing.T) {
	first := Real(t, Options{})
	second := &Server{t: t, o: Options{Path: "redis-server"}, dir: t.TempDir()}
	if err := second.place(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Kill)
	_, port, err := net.SplitHostPort(first.addr)
	if err != nil {
		t.Fatal(err)
	}
	second.addr = first.addr
	second.args = append(second.args, "--port", port) // the last --port counts
	if err := second.launch(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the port is taken, but launch returned %v", err)
	}
}
