// Package skew says what drifting clocks, stalls and long jobs can do to a
// fleet of lock clients: by a closed form ([Law]) and by exhaustive search over
// the clients' own steps ([Explore]), which shows how as a [Trace].
//
// How often it happens is the answer of package skew/simulate. Package
// skew/offset bounds real clocks by what clients write.
//
// It is pure: no I/O, no clock, no randomness of its own. Every instant is an argument, so one answer
// can be computed twice and compared.
//
// It does not measure anything, and it is only as right as what it is told. The law and the explorer
// answer for a stated lease, job, delay and spread.
//
// HAZARD: a fleet whose jobs run longer, or whose clients pause longer, than was stated gets an answer
// about another fleet. Nothing here can notice that; only a measurement on the live keys can.
package skew
