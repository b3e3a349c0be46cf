// SPDX-License-Identifier: Apache-2.0

// Package audit watches a live server that a fleet of old lock clients uses. It
// reports which dialects the clients speak, who writes, whose clock is wrong
// and by how much, and what went wrong while it watched.
//
// Most programs need [Watch] alone: it watches a server for a while and returns
// a [Result]. Package probe reads every key once, and package doctor says what
// is wrong with a server and its locks.
//
// # Sources and results
//
// [Watch] turns what it sees into [offset.Observed] events and gives them to a
// [census.Census]. [Replay] does the same with the events of an earlier record,
// and comes to the same result. The census receives nothing else, so another
// person can check its conclusions later, on another machine. The result is
// [census.Evidence]: each fact with its source and its instant by the server's
// clock. It also says whether the fact was measured, given, claimed or guessed.
//
//	MONITOR ─────────┐
//	looks, SCAN ─────┤                       ┌─ Evidence
//	CLIENT LIST ─────┼─ events ─┬─ Census ───┤
//	INFO ────────────┘          │            └─ Findings
//	                            └─ record ─── Replay ─ Census ─ the same
//
// # What it cannot promise
//
// It does not promise to see everything. A look misses what comes and goes
// between two looks, MONITOR runs in bursts, and the server may refuse a
// source. Every such gap is listed in [census.Coverage]. What was not seen is
// never reported as absent, and nothing can be said of a client that wrote
// nothing during the watch.
//
// # What it changes on the server
//
// A watch writes no key, changes no setting and never sends KEYS. If a watcher
// is killed, it leaves only connections, which the server closes itself.
//
// # Clocks
//
// Facts are dated by the server's clock. The observer's elapsed time, measured
// by [Config.Clock], only shows whether the server's clock stepped. An offset
// is the client's clock minus the server's: positive if the client is ahead.
//
// HAZARD: an offset depends on the lease that the client adds to its clock. If
// that lease was guessed, the error of the guess shifts all offsets of that
// writer. Differences within a fleet that shares one lease stay right.
//
// HAZARD: MONITOR slows the server down while it runs. Its bursts end by
// themselves, but a server without spare capacity should be watched without
// MONITOR.
package audit
