// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
