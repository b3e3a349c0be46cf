// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"os"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(watchOf); addr != "" {
		if err := watchInChild(addr, watchedKeys); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}
