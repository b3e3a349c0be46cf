// SPDX-License-Identifier: Apache-2.0

//go:build race

package sim

// raced says that the race detector is on. It makes a play ten times slower.
const raced = true
