// SPDX-License-Identifier: Apache-2.0

// Package dialect describes, as data, what the clients of a timestamp lock
// write on a Redis key and how they read what other clients wrote. That
// includes unit, text, slack, comparison, the rule that decides a GETSET, and
// the release.
//
// Most programs need one preset, such as [Jedis], or a dialect file read with
// [Parse].
//
// The package reads values and does arithmetic, and nothing else: no I/O, no
// clock, no randomness. Every instant is an argument. So the verbatim client,
// the explorer and the audit share one implementation, and a table of instants
// tests it.
//
// It does not promise that a value means what it looks like. A stamp does not
// prove which client wrote it. One number can be a plausible time in two units.
// A far-future number may be a getsetlock guard or another program's random
// token. Therefore reading is strict: a value that the dialect would never
// write counts as held (see [Dialect.Decode]). Ambiguity is reported (see
// [Identify]). Ownership is decided elsewhere, by comparing whole tokens.
//
// HAZARD: the package reads values in two ways. Decode says what a getsetlock
// client may take for a stamp. LegacyNext, LegacyWins and LegacyReleases say
// what the old program does, mistakes included. A takeover by the second way
// copies the old program's faults; only Verbatim and the models should do that.
package dialect
