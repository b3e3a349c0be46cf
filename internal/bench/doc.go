// Package bench measures locks on a Redis server, one scenario after the other,
// and compares each adapter with bare redigo. It knows only the [Adapter]
// interface. The adapters of getsetlock and of the bare commands are here;
// those of other libraries are in a module below bench/, so that this module
// does not depend on them.
//
// It promises:
//
//   - Adapters take turns within a round, and each round begins with another
//     adapter.
//   - Every measurement runs in new processes.
//   - Ratios compare figures of the same round.
//
// It does not promise that a figure means anything elsewhere: microseconds
// depend on the machine and on its other work. Ratios carry over to other
// machines only if client and server shared one CPU (taskset) that did nothing
// else.
//
// Throughput alone makes barging look like speed. So every scenario with
// waiters also reports the longest wait, how many waiters got nothing, and how
// even the shares were.
//
// The package assumes that the processes of a measurement share one wall clock,
// and that nobody sets it meanwhile: gaps between processes are differences of
// its readings. A step of the clock shows as negative gaps, which are counted
// and reported as overlaps.
package bench
