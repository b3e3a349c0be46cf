// SPDX-License-Identifier: Apache-2.0

// Package twokey takes a lock by two keys on one Redis server. It is the engine
// of package legacy's Hardened and of package migrate's Bridge.
//
// M = {L}:gsl holds the token of the getsetlock client that has the lock, and
// keeps getsetlock clients from each other. L is the old clients' key. What it
// carries while a getsetlock client holds, its mark, depends on the [Strategy].
// Each attempt, renewal and release is one script that looks at both keys.
//
//	free ──mark on L, token on M──▶ held ──renew──▶ held ──release──▶ free
//	old stamp passed ──mark, token──▶ settling ──same bytes──▶ held
//	settling ──other bytes──▶ not acquired
//	held ──mark deleted or overwritten──▶ lost (M stays until Release or its TTL)
//
// The rules named by number here are those of docs/internals/protocol.md. A
// mark has scripts of its own: a stamp is made and written anew by the server's
// clock, and the same bytes may be another client's, so its scripts look at
// TTLs too. Guard and tombstone are known by their bytes alone. Everything else
// is shared.
package twokey
