// SPDX-License-Identifier: Apache-2.0

// Package fencing has the Lua function that draws fencing numbers, which the
// scripts of several packages share: draw(counter, numbers, sec, usec) returns
// the first of a block of numbers. Numbers of one counter strictly increase as
// long as the server loses no write, or its clock is not behind by more than a
// fail-over took.
package fencing

import _ "embed" // draw.lua

//go:embed draw.lua
var draw string

// Draw returns the source of the function, to be inserted after a script's
// first line.
func Draw() string { return draw }

// Block is how many numbers one command draws: the lease's own, and those for
// the leases that it is shared with inside the process. It is small, since the
// counter must not outrun the clock's microseconds. With eight, that would take
// 125,000 leases a second on one server.
const Block = 8
