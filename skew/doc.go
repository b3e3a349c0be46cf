// SPDX-License-Identifier: Apache-2.0

// Package skew answers what drifting clocks, stalls and long jobs can do to a
// fleet of lock clients. It answers with a closed form ([Law]) and with an
// exhaustive search over the clients' own steps ([Explore]). The search shows
// how it happens as a [Trace].
//
// Most programs need [Law.Verdict]; [Law.Scenario] and [Explore] show an
// example.
//
// How often it happens is a question for the command getsetlock skew.
//
// # What it does not do
//
// The package is pure: no I/O, no clock, no randomness of its own. Every
// instant is an argument, so an answer can be computed twice and compared.
//
// It does not measure anything, and its answers are only as right as its input.
// The law and the explorer answer for a stated lease, job, delay and spread.
//
// HAZARD: if a fleet's jobs run longer, or its clients pause longer, than was
// stated, the answer is about another fleet. The package cannot notice that;
// only a measurement on the live keys can.
package skew
