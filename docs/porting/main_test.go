// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	_ "github.com/getsetlock/getsetlock/internal/testing/redistest" // makes politeness the same in each run
)

// The page about testing reads the address of a real server from a variable.
// Here it is an embedded one, so that the page's test runs on any machine.
func TestMain(m *testing.M) {
	server, err := miniredis.Run()
	must(err)
	must(os.Setenv("TEST_REDIS", "redis://"+server.Addr()))
	goleak.VerifyTestMain(served{m, server})
}

// served are tests that need a server until they end.
type served struct {
	*testing.M
	server *miniredis.Miniredis
}

func (s served) Run() int {
	defer s.server.Close()
	return s.M.Run()
}
