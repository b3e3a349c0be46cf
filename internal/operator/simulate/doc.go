// SPDX-License-Identifier: Apache-2.0

// Package simulate answers how often two clients of a fleet hold one lock, and
// why. It plays the fleet's clients, clocks and pauses event by event
// ([Simulator]), and counts. [Presets] are named states of clocks.
//
// Most programs need [New] with a [Fleet], [Simulator.Run] and
// [Simulator.Rates].
//
// Package skew answers whether something can happen at all: a run that shows
// nothing proves nothing. How often it happens with getsetlock clients among
// the old ones is shown by the real clients, in getsetlock rehearse --preset.
//
// The package is pure: no I/O, no clock. The same seed has the same result.
package simulate
