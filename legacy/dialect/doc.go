// Package dialect describes, as data, what the clients of a timestamp lock write on a Redis key and
// how they read what others wrote: unit, text, slack, comparison, the rule that decides a GETSET, the
// release.
//
// It reads values and does arithmetic, and nothing else: no I/O, no clock, no randomness. Every
// instant is an argument. So the verbatim client, the explorer and the audit judge by one
// implementation, and a table of instants tests it.
//
// It does not promise that a value means what it looks like. A stamp proves nothing about who wrote
// it; two units can be plausible for one number; a far-future number may be a guard of ours or a
// stranger's random token. Reading is therefore strict (what a dialect would never write is held, see
// [Dialect.Decode]), ambiguity is reported (see [Identify]), and ownership is decided elsewhere, by
// whole tokens.
//
// HAZARD: two notions of "reading" live here. Decode says what ours may take for a stamp.
// LegacyNext, LegacyWins and LegacyReleases say what the old program does, mistakes included. Taking a lock over by the
// second one reproduces the old program's faults, which is their purpose and no one else's.
package dialect
