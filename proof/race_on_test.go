// SPDX-License-Identifier: Apache-2.0

//go:build race

package proof

// raced says that the race detector is on. It makes a walk ten times slower,
// and finds as much in a short one.
const raced = true
