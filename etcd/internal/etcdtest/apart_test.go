// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if Serve() {
		return
	}
	os.Exit(m.Run())
}
