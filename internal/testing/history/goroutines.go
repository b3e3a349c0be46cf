// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
)

// Running counts the goroutines of this process that run a func of one of the
// packages, which are named by the ends of their paths.
func Running(t testing.TB, packages ...string) (n int) {
	t.Helper()
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		t.Fatal(err)
	}
	for one := range strings.SplitSeq(all.String(), "\n\n") {
		if slices.ContainsFunc(packages, func(name string) bool { return strings.Contains(one, name+".") }) {
			n++
		}
	}
	return n
}
