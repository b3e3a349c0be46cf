// Package bench measures locks on a Redis server, one scenario after the other, each adapter against
// bare redigo. It knows only the [Adapter] interface: ours and the bare commands are here, other
// libraries are in the module below bench/, so that this module does not depend on them.
//
// It promises that adapters take turns within a round, that each round begins at another one, that
// every measurement runs in processes of its own, and that ratios are those of one round. It does not
// promise that a figure means anything elsewhere: microseconds depend on the machine, and on what
// else runs on it. Ratios of one run carry over as far as client and server shared one CPU (taskset)
// and nothing else did.
//
// Throughput alone makes barging look like speed, so every scenario with waiters also tells who
// waited longest, who got nothing at all, and how even the shares were.
//
// The package assumes that the processes of a measurement share one wall clock that is not set
// meanwhile: gaps between them are differences of its readings. A step shows as gaps that are
// negative, which are counted and reported as overlaps.
package bench
