// Package census counts what old lock clients do, from events alone: a [Census]
// is a fold of [offset.Observed] events, and [Evidence] is what they come to.
// Each fact has its source, its instant by the server's clock, and whether it
// was measured, given, claimed or guessed.
//
// It is pure. It opens no connection and no file and reads no clock, so the same
// events in the same order come to the same evidence, live or from a record.
// Package audit has the sources that observe a server.
//
// It does not promise to have seen everything: every blindness is in
// [Coverage], and what was not seen is not taken for absent.
//
// HAZARD: offsets depend on the lease that the client adds to its clock. A lease
// that was guessed moves all offsets of its writer by what the guess is off.
package census
