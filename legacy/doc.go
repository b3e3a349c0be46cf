// Package legacy takes the locks of old clients, on the same Redis keys, by the same rules: the
// timestamp lock of SETNX, GET, GETSET and DEL, and the half-modern ones beside it. What an old
// client writes and how it judges is a [dialect.Dialect].
//
// There are two modes. [Verbatim] sends the old client's own commands in its order, pace and quirks,
// and promises sameness: whatever the old client does wrong, it does too. [Hardened] puts the same
// bytes on the key L, in scripts, beside a token on a second key M = {L}:gsl. It promises that no two
// of ours hold together whatever the old clients do, and that nobody holds beside ours while the old
// clients are honest: while their jobs are shorter than lease + slack - spread - gap (see
// [dialect.Terms]) and they never pause longer than gap between their clock reading and the GETSET
// that writes it.
//
// Neither can keep an old client from deleting or overwriting what is not its own. Hardened notices,
// by one message right after the write where the server tells of changes and at the next renewal where
// not, and tells the holder (an error that wraps lock.ErrLost). Another old client may have entered by
// then. Verbatim does not look. Old clients of dialects that take over
// "their own" value (JedisUUID) do not exclude each other, and beside a double grant of theirs ours
// may enter and cannot know it.
//
// HAZARD: Verbatim stamps and judges by the wall clock of this machine, as old clients do. A clock
// behind the fleet's writes locks that others see as expired; one ahead takes locks that are held.
//
// Hardened stamps by the server's clock and compares stamps with it. The server
// is one more clock of the fleet, and how far old clients are behind it follows
// from nothing that they write to each other. While that is unknown
// ([dialect.Terms] has Behind), a stamp that has passed is taken over only when
// the same bytes stood there at a look of more than the greatest lease ago. The
// server remembers that look beside M, in a hash named M:look, so that processes
// that live for a moment get on.
//
// HAZARD: a Behind that is claimed and too small robs holders whose clocks are
// slow. What the server's clock gains on this process is added to it; a step
// that fell before the first look cannot be seen. A claim speaks of every server
// that may be promoted.
//
// A stamp of ours lies a day beyond its lease (and Terms.Ahead, if that is
// known), so that no old client whose clock is less than that ahead takes it
// while we work. The key's TTL is the lease: it frees the key after a crash.
//
// HAZARD: a server that loses acknowledged writes (a fail-over, a restart without persistence) loses
// locks, in both modes.
package legacy
