// SPDX-License-Identifier: Apache-2.0

// Package offset bounds the clocks of lock clients by what they write. An
// [Interval] bounds the offset of one clock to the server's. [Observed] is an
// event seen on a server, in the format of the records.
//
// [Stamped.Offset] is what one write proves about a clock by itself, whatever
// that clock does before and after. Package internal/operator/census joins
// these. A [Clock] assumes more, so it only notices steps, for people.
//
// The package is pure: no clock, and no I/O but the given reader and writer.
//
// HAZARD: a lease that is wrong by x moves every offset of its client by x, and
// nothing in the written values shows it.
package offset
