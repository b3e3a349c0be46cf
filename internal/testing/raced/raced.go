// SPDX-License-Identifier: Apache-2.0

// Package raced says whether the race detector is on. It makes tests many times
// slower, and finds nothing in a part that has no goroutines.
package raced

// Few returns the whole list, but under the race detector only its first item.
// `go test` without the detector, as in `make test`, tries everything.
func Few[T any](all []T) []T {
	if On && len(all) > 1 {
		return all[:1]
	}
	return all
}

// Every returns n under the race detector, and 1 without it: by how much a long
// loop goes on.
func Every(n int) int {
	if On {
		return n
	}
	return 1
}
