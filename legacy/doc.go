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
// Hardened stamps by the server's clock, and by default judges by it: a server whose clock steps
// forwards by more than the takeover margin makes live stamps look expired. A step that was seen
// suspends judging for one greatest lease; one that fell before our first look cannot be seen.
//
// HAZARD: a server that loses acknowledged writes (a fail-over, a restart without persistence) loses
// locks, in both modes.
package legacy
