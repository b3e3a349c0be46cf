// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, Main) }
