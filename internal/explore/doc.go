// SPDX-License-Identifier: Apache-2.0

// Package explore is the engine of package skew's explorer: old clients of any
// dialect, step by step ([Machine]), and the search through all orders of the
// steps of a world ([Search]).
//
// Users have it as skew.Explore. The tests of folder proof add getsetlock
// clients to its worlds, by a [Space] of their own.
//
// The package is pure: no I/O, no clock, no randomness of its own.
package explore
