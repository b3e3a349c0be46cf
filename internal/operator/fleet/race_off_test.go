// SPDX-License-Identifier: Apache-2.0

//go:build !race

package fleet

// raced: the race detector is on.
const raced = false

// step: faults hit every message in turn.
const step = 1
