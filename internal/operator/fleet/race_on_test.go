// SPDX-License-Identifier: Apache-2.0

//go:build race

package fleet

// raced: the race detector is on, which costs eight times the time.
const raced = true

// step: the detector sees as much where faults hit every eighth message.
const step = 8
