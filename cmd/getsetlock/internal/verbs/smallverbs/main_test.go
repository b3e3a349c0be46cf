// SPDX-License-Identifier: Apache-2.0

package smallverbs_test

import (
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Main) }
