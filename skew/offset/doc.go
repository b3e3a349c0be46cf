// Package offset bounds the clocks of lock clients by what they write. An
// [Interval] bounds the offset of one clock to the server's ([Estimator]), and
// [Fleet] combines those of a whole fleet. [Observed] is an event seen on a
// server, in the format of the records.
//
// Most programs need a [Fleet], fed by [Estimator.Stamp] with [StampedBy].
//
// # What an interval assumes
//
// An interval holds while three assumptions hold: the client adds the given
// lease to its clock, one process writes, and no clock steps. Where they cannot
// all hold, [Estimator.Contradictions] names the one that broke. So intervals
// are for people, and no gate may use them. [Stamped.Offset] is what one write
// proves about a clock by itself, whatever that clock does before and after.
// Package audit/census gives the gates that.
//
// The package is pure: no clock, and no I/O but the given reader and writer.
//
// HAZARD: a lease that is wrong by x moves every offset of its client by x, and
// nothing in the written values shows it.
package offset
