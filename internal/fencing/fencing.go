// Package fencing holds the Lua function that draws fencing numbers, which the scripts of several
// packages share: draw(counter, numbers, sec, usec) → the first of a block of numbers. Strictly
// increasing for each counter, as long as the server loses no write, or its clock is not behind by more
// than a fail-over took.
package fencing

import _ "embed" // draw.lua

//go:embed draw.lua
var draw string

// Draw is the source of the function, to be put behind a script's first line.
func Draw() string { return draw }

// Block is how many numbers one command draws: the lease's own and those for whom it is shared with
// inside the process. Few, since the counter must not outrun the clock's microseconds: at eight a
// server would have to grant 125,000 leases a second.
const Block = 8
