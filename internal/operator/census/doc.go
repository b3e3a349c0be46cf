// SPDX-License-Identifier: Apache-2.0

// Package census counts what old lock clients do, from events alone. A [Census]
// folds [offset.Observed] events; the result is [Evidence]. Each fact comes
// with its source, its instant by the server's clock, and whether it was
// measured, given, claimed or guessed.
//
// Most programs need package audit, which observes a server and feeds a Census.
// Use this package to count events of your own: [New], [Census.Add],
// [Census.Evidence].
//
// # Purity
//
// A Census opens no connection and no file and reads no clock. So the same
// events in the same order lead to the same evidence, live or from a record.
//
// # What it cannot promise
//
// It does not promise to have seen everything. Every gap in a source is listed
// in [Coverage], and what was not seen is never reported as absent.
//
// HAZARD: offsets depend on the lease that the client adds to its clock. If
// that lease was guessed, the error of the guess shifts all offsets of its
// writer.
package census
