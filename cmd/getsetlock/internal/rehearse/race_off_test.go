// SPDX-License-Identifier: Apache-2.0

//go:build !race

package rehearse

// raced reports whether the race detector is on.
const raced = false
