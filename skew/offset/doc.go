// Package offset bounds the clocks of lock clients by what they write: an
// [Interval] for the offset of each clock to the server's ([Estimator]), and
// what that says of a whole fleet ([Fleet]). [Observed] events are what was seen
// of a server, and the format of their records.
//
// An interval holds while its assumptions do: the lease that the client adds to
// its clock is the one given, one process writes, and no clock steps. Where
// they cannot all hold, [Estimator.Contradictions] names the one that broke. So
// intervals are for people: no gate may go by them. What one write says of a
// clock by itself is [Stamped.Offset], which holds whatever that clock does
// before and after. Package audit/census feeds the gates with that.
//
// It is pure: no I/O but the reader and the writer that it is given, no clock.
//
// HAZARD: a lease that is off by x moves every offset of its client by x, and
// nothing that is written shows it.
package offset
