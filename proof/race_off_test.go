// SPDX-License-Identifier: Apache-2.0

//go:build !race

package proof

// raced says that the race detector is on.
const raced = false
