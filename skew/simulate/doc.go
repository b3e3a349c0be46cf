// Package simulate says how often two clients of a fleet hold one lock, and
// why: it plays the fleet's clients, clocks and pauses event by event ([Run]),
// and counts. [Presets] are named states of clocks.
//
// Whether something can happen at all is the answer of package skew: a run that
// shows nothing proves nothing.
//
// It is pure: no I/O, no clock. A seed has one result.
package simulate
