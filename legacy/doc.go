// SPDX-License-Identifier: Apache-2.0

// Package legacy takes the locks of old clients on the same Redis keys, by the
// same rules. These are the timestamp lock of SETNX, GET, GETSET and DEL, and
// its half-modern successors. A [dialect.Dialect] describes what an old client
// writes and how it judges.
//
// Most programs need [Open] with [Config].Dialect and Terms.Lease set. Programs
// with a redigo pool give it to [New], and the [Backend] to lock.New.
//
// # Modes
//
// [Verbatim] sends the old client's own commands in its order and pace, with
// its quirks. It promises sameness: whatever the old client does wrong, it does
// too.
//
// [Hardened] writes the same bytes on the key L with scripts, and a token on a
// second key M = {L}:gsl. It promises two things. No two getsetlock clients
// hold a lock together, whatever the old clients do. No old client holds it
// together with a getsetlock client while the old clients are honest. They are
// honest while their jobs are shorter than lease + slack - spread - gap (see
// [dialect.Terms]). They also must never pause longer than gap between their
// clock reading and the GETSET that writes it.
//
//	free ──SET L, M──▶ held ──renew──▶ held ──release──▶ free
//	old stamp passed ──SET L, M──▶ settling ──same bytes──▶ held
//	settling ──other bytes──▶ not acquired
//	held ──L deleted or overwritten──▶ lost (M stays until Release or its TTL)
//
// # What neither mode can do
//
// Neither mode can keep an old client from deleting or overwriting another
// client's value. Hardened notices it and reports it to the holder with an
// error that wraps backend.ErrLost. Where the server reports changes, that
// takes one message right after the write; elsewhere it is found at the next
// renewal. Another old client may have entered by then. Verbatim does not look.
//
// Old clients of dialects that take over "their own" value (JedisUUID) do not
// exclude each other. A getsetlock client may enter alongside their double
// grant and cannot know it.
//
// # Clocks
//
// HAZARD: Verbatim stamps and judges by this machine's wall clock, as old
// clients do. A clock behind the fleet's writes locks that other clients see as
// expired. A clock ahead of it takes locks that are held.
//
// Hardened stamps by the server's clock and compares stamps with it. The server
// is one more clock of the fleet. How far old clients are behind it does not
// follow from what they write to each other. While that is unknown
// ([dialect.Terms] has Behind), a stamp that has passed is not enough. A look
// more than the greatest lease ago must have shown the same bytes. The server
// remembers that look in a hash named M:look, so that short-lived processes
// make progress.
//
// HAZARD: a claimed Behind that is too small takes locks from holders whose
// clocks are slow. What the server's clock gains on this process is added to
// it, but a step before the first look cannot be seen. A claim must hold for
// every server that may be promoted.
//
// A hardened stamp lies a day beyond its lease (plus Terms.Ahead, if that is
// known). No old client whose clock is less than that ahead takes it while the
// job runs. The key's TTL is the lease: it frees the key after a crash.
//
// HAZARD: a server that loses acknowledged writes (a fail-over, a restart
// without persistence) loses locks, in both modes.
package legacy
