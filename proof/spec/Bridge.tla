\* SPDX-License-Identifier: Apache-2.0
------------------------------- MODULE Bridge -------------------------------
(***************************************************************************)
(* Getsetlock clients together with old clients, on one key of the old     *)
(* clients: §4 to §6 of docs/internals/protocol.md, again.  L is the old   *)
(* clients' key, M is the getsetlock clients' key.  Old clients know only  *)
(* L.  A getsetlock client takes both keys by one script or neither,       *)
(* renews both, and releases both.  What it writes on L is its mark: a     *)
(* stamp (phase observe), a guard that no clock ever finds expired (phase  *)
(* dual), or nothing where L has a tombstone (Tombstone.tla, which moves   *)
(* the phases).  Names in this module that begin with "our" are about      *)
(* getsetlock clients.                                                     *)
(*                                                                         *)
(* No state contains an instant.  A stamp is its distance from the         *)
(* server's clock, and everything else has an age.  So two worlds that     *)
(* differ by a shift of time are equal, and time needs no end.  What takes *)
(* no time happens within a tick, in any order.                            *)
(*                                                                         *)
(* Rules are those of §6 of docs/internals/protocol.md.  A world (module *)
(* Worlds) may lack a rule, by name, or have a number that the rule        *)
(* forbids.  Then Harmless must fail, and TLC's trace shows what the rule  *)
(* prevents.                                                               *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Worlds

VARIABLES
  world,             \* the number of this world in Worlds: which clients there are, how far each may go wrong
  L, M,              \* the two keys
  old, our,          \* the clients
  fleet,             \* how far the old clients' clocks are stepped together, relative to the server's
  once,              \* what may happen once, and which members send no heartbeats; Tombstone.tla
  record, member,    \* the phase in the record, and the one that each getsetlock client has read; Tombstone.tla
  harm               \* what has happened that the other variables do not show

vars == <<world, L, M, old, our, fleet, once, record, member, harm>>

W == Worlds[world]

Without(rule) == rule \in W.without

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

----------------------------------------------------------------------------
(* Names.  A client that gives up its identity, by a crash or because a    *)
(* token is never used twice, leaves a stranger's bytes.                   *)

Old == 1 .. 3        \* numbers of old clients, and
Our == 11 .. 13      \* of getsetlock clients; those that are not in this world are absent
Nobody == 0
Stranger == 99

(* Phases. *)
NoPhase == 0
Observe == 1
Dual == 2
Sealed == 3
Modern == 4
Clean == 5

(* A value on L.  by: its writer, where bytes show it.  at: a stamp's      *)
(* distance from the server's clock.  ttl: ticks for which the key still   *)
(* exists, including this one; 0 for ever.                                 *)
Mark(kind, by, at, ttl) == [kind |-> kind, by |-> by, at |-> at, ttl |-> ttl]
None == Mark("none", Nobody, 0, 0)
Tombstone == Mark("tombstone", Nobody, 0, 0)

(* What a client remembers of L. *)
Seen(mark) == [kind |-> mark.kind, by |-> mark.by, at |-> mark.at]
Nothing == Seen(None)
SameBytes(a, b) == a.kind = b.kind /\ a.by = b.by /\ a.at = b.at

(* A value on M: the token's client, the ticks for which the key exists,   *)
(* and the stamp that was written to L together with it.  M's value        *)
(* repeats that stamp, so that after a lost reply the next script still    *)
(* knows which bytes on L are the client's.                                *)
Token(by, ttl, at) == [by |-> by, ttl |-> ttl, at |-> at]
NoToken == Token(Nobody, 0, 0)

(* What M:look remembers of L: the bytes, and how long ago L had them.     *)
NoLook == [kind |-> "none", by |-> Nobody, at |-> 0, age |-> 0]

(* A key with a TTL exists through its last tick. *)
Lasts(ticks) == ticks + 1

(* Stamps further back than this look alike to all clients.                *)
Apart == Max(W.ahead, 0) + Max(W.behind, 0) + W.takeoverMargin + W.fleetStep + W.serverStep + 2
Floor ==
  Min(Min(0, W.slack + W.lease - W.behind - 2 * W.gap)
        - Apart - (IF W.unchanged > 0 THEN W.unchanged + W.sparse ELSE 0),
      IF W.anew THEN 0 ELSE -W.gap - Apart)
Moved(at, by) == Max(at - by, Floor)
Aged(at) == Moved(at, 1)

----------------------------------------------------------------------------
(* Old clients, by their dialect.  W.takeover: they send GETSET.           *)
(* W.orMine: their own uuid counts as expired.  W.anew: they judge by a    *)
(* new clock reading.  W.restamp: they also make a new stamp then.         *)
(* W.onNil: "waits" or "getset".  W.wins: "same" or "nil or expired".      *)
(* W.release: "del" or "at least own".  W.expire: every client sends       *)
(* EXPIRE, even after a lost SETNX.  W.keyTTL: their SETNX sets a TTL, and *)
(* every winner sends EXPIRE.                                              *)

Resting == [pc |-> "idle", age |-> 0, stamp |-> 0, seen |-> Nothing]
OldHolds(o) == old[o].pc \in {"holds", "holds, EXPIRE next", "DEL next"}
OursHolds(c) == our[c].pc \in {"holds", "told lost"}

Written(o, stamp) ==
  IF W.takeover THEN Mark("stamp", IF W.orMine THEN o ELSE Nobody, stamp, 0)
                ELSE Mark("constant", Nobody, 0, 0)
Made(off) == off + W.lease + W.slack + fleet

(* The members of the fleet, and the phases in which their leases were     *)
(* taken.                                                                  *)
Here == {c \in Our : our[c].pc # "absent"}
Heard == Here \ (once.away \cup once.unsaid)
Members == {member[c] : c \in Heard}
Leases == {our[c].phase : c \in {d \in Heard : our[d].pc # "idle"}}

(* A member whose record is later than the present one: an older one was   *)
(* restored.                                                               *)
Older(c) == once.older = 1 /\ member[c] > record

(* The verbs refuse, and say so, in three cases: a member has read a later *)
(* record, a member has vanished, so that its state is unknown, or no      *)
(* member is heard.  Of a member that is missing from the registry, verbs  *)
(* do not know that it is missing.                                         *)
Refuses ==
  \/ \E c \in Here \ once.unsaid : Older(c) /\ ~Without("an older record opens nothing")
  \/ once.away # {} /\ ~Without("a vanished member blocks")
  \/ Here # {} /\ Heard = {} /\ ~Without("an empty registry closes every gate")

(* After clean no old client may be left.  They start again when a new     *)
(* record has begun, every member has acknowledged it, and no lease        *)
(* depends only on M any more.                                             *)
MayStart ==
  /\ record # Clean \/ Without("a window as long as old clients pause")
  /\ W.phase # Clean
  /\ W.again => \/ Without("old clients start last after clean")
                \/ ~Refuses /\ \A p \in Members \cup Leases : p < Clean
  /\ W.restored => ~Refuses

(* An attempt reads its clock, which may lie anywhere within bounds,       *)
(* before its SETNX.  That fixes the stamp, and the GETSET writes the same *)
(* one.                                                                    *)
Begin(o) ==
  /\ old[o].pc = "idle" /\ MayStart
  /\ \E off \in (IF W.takeover THEN -W.behind .. W.ahead ELSE {0}) :
       old' = [old EXCEPT ![o] = [Resting EXCEPT !.pc = "SETNX next",
                                   !.stamp = IF W.takeover THEN Made(off) ELSE 0]]
  /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

Wins(o, age) ==
  [Resting EXCEPT !.pc = IF W.expire \/ W.keyTTL THEN "holds, EXPIRE next" ELSE "holds", !.age = age,
                  !.stamp = IF W.release = "at least own" THEN old[o].stamp ELSE 0]

Setnx(o) ==
  /\ old[o].pc = "SETNX next"
  /\ IF L = None
       THEN L' = [Written(o, old[o].stamp) EXCEPT !.ttl = IF W.keyTTL THEN Lasts(W.lease) ELSE 0] /\ old' = [old EXCEPT ![o] = Wins(o, 0)]
       ELSE /\ UNCHANGED L
            /\ old' = [old EXCEPT ![o] =
                 IF W.expire THEN [old[o] EXCEPT !.pc = "EXPIRE next"]
                 ELSE IF W.takeover THEN [old[o] EXCEPT !.pc = "GET next"] ELSE Resting]
  /\ UNCHANGED <<world, M, our, fleet, once, record, member, harm>>

(* The clock by which a client judges: with a new reading the one that is  *)
(* furthest ahead, otherwise the reading that made its stamp.              *)
Judges(o) == IF W.anew THEN W.ahead + fleet ELSE old[o].stamp - W.slack - W.lease
Expired(at, clock) == at < clock

(* Whether the client finds what it saw expired, now or within the         *)
(* attempt.                                                                *)
GoesOn(o, saw) ==
  LET wait == IF W.anew THEN Max(0, W.gap - old[o].age) ELSE 0
  IN  CASE saw.kind = "none" -> W.onNil = "getset"
        [] W.orMine /\ saw.by = o -> TRUE
        [] saw.kind = "stamp" -> Expired(saw.at - wait, Judges(o))
        [] OTHER -> FALSE                   \* guards, tombstones: held by every clock

Get(o) ==
  /\ old[o].pc = "GET next"
  /\ old' = [old EXCEPT ![o] =
       IF GoesOn(o, Seen(L)) THEN [old[o] EXCEPT !.pc = "GETSET next", !.seen = Seen(L)] ELSE Resting]
  /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

Won(before, saw, clock) ==
  IF W.wins = "same" THEN before.kind # "none" /\ SameBytes(before, saw)
  ELSE before.kind = "none" \/ (before.kind = "stamp" /\ Expired(before.at, clock))

(* Whether a value is client c's mark, as a script would know it (rules 7  *)
(* and 10).  A stamp's bytes prove nothing without M, which repeats them,  *)
(* and without the TTL that a getsetlock client always writes with them.   *)
IsMark(mark, c) ==
  CASE our[c].on = "tombstone" -> mark.kind = "tombstone"
    [] mark.kind = "guard" -> mark.by = c
    [] OTHER -> mark.kind = "stamp" /\ mark.at = M.at /\ (mark.ttl > 0 \/ Without("mark has a TTL"))

(* For the goals "loss unnoticed" and "job lost": the getsetlock clients   *)
(* whose mark was touched since they last looked.                          *)
Touched(clients, before) ==
  [c \in Our |->
     IF /\ our[c].pc \in {"answer", "settles", "holds", "told lost", "stopped"}
        /\ our[c].on # "nothing" /\ M.by = c
        /\ (our[c].on = "own" \/ before.kind = "tombstone") /\ IsMark(before, c)
       THEN [clients[c] EXCEPT !.touched = TRUE] ELSE clients[c]]

FindsExpired(o) ==
  \/ old[o].seen.kind # "stamp"
  \/ W.orMine /\ old[o].seen.by = o
  \/ Expired(old[o].seen.at, Judges(o))

(* Some clients judge, make a new stamp, and only then send GETSET.        *)
Restamp(o) ==
  /\ old[o].pc = "GETSET next" /\ W.restamp /\ FindsExpired(o)
  /\ \E off \in -W.behind .. W.ahead :
       old' = [old EXCEPT ![o].pc = "GETSET after all", ![o].stamp = Made(off)]
  /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

(* GETSET writes whether it wins or not, and removes the key's TTL.  A     *)
(* client that loses has overwritten the winner, which may be a getsetlock *)
(* client.                                                                 *)
Getset(o) ==
  LET c == old[o]
  IN  /\ \/ c.pc = "GETSET next" /\ ~W.restamp /\ FindsExpired(o)
         \/ c.pc = "GETSET after all"
      /\ L' = Written(o, c.stamp)
      /\ our' = Touched(our, L)
      /\ old' = [old EXCEPT ![o] =
           IF W.anew /\ W.wins # "same" /\ L # None
             THEN [c EXCEPT !.pc = "reply next", !.age = 0, !.seen = Seen(L)]
           ELSE IF Won(L, c.seen, Judges(o)) THEN Wins(o, 0) ELSE Resting]
      /\ UNCHANGED <<world, M, fleet, once, record, member, harm>>

(* A reply that is judged late, by yet another reading.                    *)
JudgeReply(o) ==
  /\ old[o].pc = "reply next"
  /\ Won(old[o].seen, Nothing, W.ahead + fleet)
  /\ old' = [old EXCEPT ![o] = Wins(o, old[o].age)]
  /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

(* EXPIRE, whatever value is there (rule 9).                               *)
Expire(o) ==
  /\ old[o].pc \in {"EXPIRE next", "holds, EXPIRE next"}
  /\ L' = IF L = None THEN L ELSE [L EXCEPT !.ttl = Lasts(W.lease)]
  /\ old' = [old EXCEPT ![o] = IF old[o].pc = "EXPIRE next" THEN Resting ELSE [old[o] EXCEPT !.pc = "holds"]]
  /\ UNCHANGED <<world, M, our, fleet, once, record, member, harm>>

(* Some clients look at the value before they delete.                      *)
DecideRelease(o) ==
  LET own == \/ L.kind \in {"guard", "tombstone"}
             \/ L.kind = "stamp" /\ L.at >= old[o].stamp
  IN  /\ old[o].pc = "holds" /\ W.release = "at least own"
      /\ old' = [old EXCEPT ![o] = IF own THEN [old[o] EXCEPT !.pc = "DEL next"] ELSE Resting]
      /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

(* DEL deletes whatever is there.                                          *)
Del(o) ==
  /\ old[o].pc = IF W.release = "del" THEN "holds" ELSE "DEL next"
  /\ L' = None
  /\ our' = Touched(our, L)
  /\ old' = [old EXCEPT ![o] = [Resting EXCEPT !.pc = IF W.rest > 0 THEN "rests" ELSE "idle"]]
  /\ UNCHANGED <<world, M, fleet, once, record, member, harm>>

(* A client may stop in the middle of an attempt.                          *)
Quit(o) ==
  /\ old[o].pc \notin {"absent", "idle", "rests"} /\ ~OldHolds(o)
  /\ old' = [old EXCEPT ![o] = Resting]
  /\ UNCHANGED <<world, L, M, our, fleet, once, record, member, harm>>

Forgotten(who, x) == IF x.by = who THEN [x EXCEPT !.by = Stranger] ELSE x
OldForget(who, clients) == [o \in Old |-> [clients[o] EXCEPT !.seen = Forgotten(who, @)]]
OurForget(who, clients) == [c \in Our |-> [clients[c] EXCEPT !.watch = Forgotten(who, @)]]

Crash(o) ==
  /\ OldHolds(o)
  /\ L' = Forgotten(o, L)
  /\ old' = OldForget(o, [old EXCEPT ![o] = Resting])
  /\ our' = OurForget(o, our)
  /\ UNCHANGED <<world, M, fleet, once, record, member, harm>>

OldStep(o) ==
  \/ Begin(o) \/ Setnx(o) \/ Get(o) \/ Restamp(o) \/ Getset(o) \/ JudgeReply(o) \/ Expire(o)
  \/ DecideRelease(o) \/ Del(o) \/ Quit(o) \/ Crash(o)

----------------------------------------------------------------------------
(* Getsetlock clients.  age: ticks since the request was sent from which   *)
(* trust counts.  life: ticks since the acquisition, or since the client   *)
(* learned of a loss.  on: what the lease depends on, "own" (its stamp or  *)
(* guard), "tombstone", or "nothing" (only M).  woken: the client has      *)
(* heard that L was touched.  heard: the stamp that it believes to be on   *)
(* L, where M does not say it.  watch, since, last: the value that it has  *)
(* seen unchanged, for how long, and how long ago it last looked.          *)

Idle == [pc |-> "idle", age |-> 0, life |-> 0, phase |-> NoPhase, on |-> "nothing",
         settled |-> FALSE, long |-> FALSE, touched |-> FALSE, judged |-> FALSE, released |-> FALSE,
         woken |-> FALSE, heard |-> 0,
         renew |-> 0, watch |-> Nothing, since |-> 0, last |-> 0]

TTL(x) == IF x.long THEN W.long ELSE W.ttl
TrustOver(x) == x.age >= TTL(x) - W.margin
LongAgo == Max(W.ttl, W.long) + 1                 \* greater ages of trust count alike
Settled == Max(W.settle, W.gap + 1)               \* greater lives, and a stop, count alike

(* How much longer L exists than M when L has a stamp.  Only where old     *)
(* clients set TTLs too is that more than 0, to distinguish the two.       *)
Beyond == IF W.keyTTL THEN 1 ELSE 0

(* Rule 7: every script looks at L.  Where old clients set a TTL on the    *)
(* same bytes, only the end that a getsetlock client sets distinguishes    *)
(* the two.                                                                *)
Stands(c) ==
  \/ our[c].on = "nothing"
  \/ /\ IsMark(L, c)
     /\ L.kind = "stamp" =>
          /\ Without("stamp remembered in M") => L.at = our[c].heard
          /\ \/ ~W.keyTTL \/ Without("mark has a TTL") \/ Without("mark ends with M")
             \/ L.ttl - M.ttl = Beyond

(* M belongs to the client whose whole token it has.                       *)
HasM(c) ==
  \/ M.by = c
  \/ Without("two keys")
  \/ Without("token compared") /\ M.by # Nobody

(* Rule 3: who judges.  The server's clock must be past the stamp by more  *)
(* than the margin.  Unless it is known how far the slowest old clock is   *)
(* behind that clock, an old enough look must have shown the same bytes.   *)
(* What steps gained is added to what is known.  Or the same bytes must    *)
(* have been there, by dense looks, through the fleet's greatest lease.    *)
Gained ==
  IF once.step = 0 \/ ~W.known \/ Without("a step is added to behind") THEN 0 ELSE W.serverStep
Past == L.at + W.takeoverMargin + Gained < 0
Remembered == once.look.kind # "none" /\ SameBytes(once.look, L)
MayTakeOver(x) ==
  IF W.unchanged > 0 THEN SameBytes(x.watch, L) /\ x.since > W.unchanged
  ELSE Past /\ (W.known \/ (Remembered /\ once.look.age >= W.look))

(* What a lease of x would depend on, if x may take L as it is; otherwise  *)
(* "held".                                                                 *)
Free(x) ==
  CASE x.phase \in {NoPhase, Clean} -> "nothing"
    [] L.kind = "none" -> "own"
    [] L.kind = "tombstone" /\ x.phase >= Sealed -> "tombstone"
    [] L.kind = "tombstone" /\ x.phase = Dual -> "own"     \* observe takes it for held
    [] L.kind = "stamp" /\ MayTakeOver(x) -> "own"
    [] x.judged \/ Without("acquire looks at L") -> "own"
    [] L.kind = "constant" /\ Without("unreadable is held") -> "own"
    [] OTHER -> "held"

(* The mark of c's lease x, and what M says of it.  A stamp lies beyond    *)
(* every clock, so the TTL frees the key after a crash.                    *)
OwnMark(c, x) ==
  IF x.phase = Observe /\ W.takeover
    THEN Mark("stamp", IF W.orMine THEN c ELSE Nobody, TTL(x) + W.slack + W.far, Lasts(TTL(x)) + Beyond)
    ELSE Mark("guard", c, 0, Lasts(TTL(x)))
OwnToken(c, x) ==
  Token(c, Lasts(TTL(x)), IF x.on = "own" /\ x.phase = Observe /\ W.takeover THEN TTL(x) + W.slack + W.far ELSE Floor)

(* The stamp that a reply says was written to L; kept only where M does    *)
(* not say it.                                                             *)
Hears(token) == IF Without("stamp remembered in M") THEN token.at ELSE 0

(* Rule 5: a takeover settles.  Rule 6: in or-mine dialects every          *)
(* acquisition settles.  A tombstone needs no settle, since only settled   *)
(* guards leave one.                                                       *)
MustSettle(on, tookOver) ==
  /\ W.settle > 0 /\ W.takeover /\ on = "own"
  /\ \/ tookOver \/ W.settleAlways
     \/ W.orMine /\ ~Without("settle after every acquisition")

(* The client receives the reply "taken".                                  *)
Told(x) ==
  [x EXCEPT !.pc = IF TrustOver(x) THEN "stopped" ELSE IF x.settled THEN "holds" ELSE "settles"]

(* The acquire script: both keys or neither; x is the attempt.  Rule 1: it *)
(* writes in the same step in which it judges, never by GETSET.            *)
Acquire(c, x) ==
  LET on == Free(x)
      tookOver == on = "own" /\ L.kind = "stamp"
      token == OwnToken(c, [x EXCEPT !.on = on])
      taken == [x EXCEPT !.on = on, !.life = 0, !.heard = Hears(token), !.watch = Nothing, !.since = 0, !.last = 0,
                         !.judged = FALSE, !.settled = ~MustSettle(on, tookOver)]
      held == on = "held" \/ (M # NoToken /\ ~Without("two keys"))
      meets == /\ ~W.known /\ W.unchanged = 0 /\ W.takeover /\ L.kind = "stamp" /\ M = NoToken /\ Past
               /\ x.phase \notin {NoPhase, Clean} /\ x.pc # "cancelled" /\ ~Remembered
  IN  /\ once' = [once EXCEPT !.look = IF ~held THEN NoLook
                                       ELSE IF meets THEN [kind |-> L.kind, by |-> L.by, at |-> L.at, age |-> 0] ELSE @]
      /\ IF held
           THEN /\ our' = [our EXCEPT ![c] = [Idle EXCEPT !.watch = x.watch, !.since = x.since, !.last = x.last, !.released = x.released]]
                /\ UNCHANGED <<L, M>>
           ELSE /\ our' = [our EXCEPT ![c] =
                     IF x.pc = "cancelled" THEN [taken EXCEPT !.pc = "stopped"]
                     ELSE IF W.late THEN [taken EXCEPT !.pc = "answer"] ELSE Told(taken)]
                /\ M' = token
                /\ L' = CASE on = "own" -> OwnMark(c, taken)
                          [] on = "tombstone" -> [L EXCEPT !.ttl = 0]
                          [] OTHER -> L
      /\ UNCHANGED <<world, old, fleet, record, member, harm>>

(* No phase, no lock: a member that never read the record refuses. *)
MayTry(c) == our[c].pc = "idle" /\ (member[c] # NoPhase \/ Without("no phase, no lock"))
Fresh(c) == [our[c] EXCEPT !.phase = member[c], !.age = 0]

Try(c) == MayTry(c) /\ ~W.late /\ Acquire(c, Fresh(c))

(* Requests and replies take time.  An attempt may be cancelled while its  *)
(* command is on its way, and the command is executed all the same.        *)
Send(c) ==
  /\ MayTry(c) /\ W.late
  /\ our' = [our EXCEPT ![c] = [Fresh(c) EXCEPT !.pc = "sent"]]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* Without rule 1: the client judges now and writes later, whatever L has  *)
(* then.                                                                   *)
SendBlind(c) ==
  /\ Without("compare and set")
  /\ MayTry(c) /\ L.kind = "stamp" /\ MayTakeOver(our[c])
  /\ our' = [our EXCEPT ![c] = [Fresh(c) EXCEPT !.pc = "sent", !.judged = TRUE]]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

Arrive(c) == our[c].pc \in {"sent", "cancelled"} /\ Acquire(c, our[c])

Cancel(c) ==
  /\ our[c].pc \in {"sent", "answer", "settles"}
  /\ our' = [our EXCEPT ![c].pc = IF @ = "sent" THEN "cancelled" ELSE "stopped"]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* A token that is given up is never used again. *)
GivenUp(c) ==
  /\ our' = OurForget(c, [our EXCEPT ![c] = Idle])
  /\ old' = OldForget(c, old)

Drop(c) ==
  /\ our[c].pc = "cancelled"
  /\ GivenUp(c)
  /\ L' = Forgotten(c, L) /\ M' = Forgotten(c, M)
  /\ UNCHANGED <<world, fleet, once, record, member, harm>>

Die(c) ==
  /\ our[c].pc \in {"answer", "settles", "holds", "told lost", "stopped"}
  /\ GivenUp(c)
  /\ L' = Forgotten(c, L) /\ M' = Forgotten(c, M)
  /\ UNCHANGED <<world, fleet, once, record, member, harm>>

(* Trust counts from before the request was sent. *)
Answer(c) ==
  /\ our[c].pc = "answer"
  /\ our' = [our EXCEPT ![c] = Told(IF Without("trust from before sending") THEN [@ EXCEPT !.age = 0] ELSE @)]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* Rule 9: a client trusts what is left of L's TTL, and no more.           *)
Reads(x) ==
  IF L.ttl = 0 \/ x.on = "nothing" \/ Without("trust within the PTTL") THEN x
  ELSE [x EXCEPT !.age = Max(@, Min(TTL(x) - (L.ttl - 1), LongAgo))]

(* Rule 5: look again before reporting "held".                             *)
Check(c) ==
  LET read == Reads(our[c])
      held == Stands(c) /\ HasM(c) /\ ~TrustOver(read)
  IN  /\ our[c].pc = "settles" /\ our[c].life >= W.settle /\ ~TrustOver(our[c])
      /\ our' = [our EXCEPT ![c] = [read EXCEPT !.renew = 0, !.settled = @ \/ held,
                                      !.pc = IF held THEN "holds" ELSE "stopped"]]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* Rule 6: a waiter of the same process gets an unsettled guard together   *)
(* with the rest of its settle.  That is the same as our[c] continuing as  *)
(* it is.                                                                  *)
PassUnsettled(c) ==
  /\ Without("settle passed on")
  /\ our[c].pc = "settles" /\ ~TrustOver(our[c])
  /\ our' = [our EXCEPT ![c].pc = "holds"]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* A client learns of a loss when trust ends, or early, by watching L.     *)
TellLost(c) ==
  /\ our[c].pc = "holds"
  /\ TrustOver(our[c]) \/ ~Stands(c)
  /\ our' = [our EXCEPT ![c].pc = "told lost", ![c].life = 0, ![c].renew = 0]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* A holder that hears that L was touched looks at once.                   *)
LookAgain(c) ==
  /\ our[c].pc = "holds" /\ our[c].woken
  /\ our' = [our EXCEPT ![c] = [Reads(@) EXCEPT !.woken = FALSE]]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* A job stops because it is done, or some time after its client learned   *)
(* of a loss.                                                              *)
Stop(c) ==
  /\ OursHolds(c)
  /\ our' = [our EXCEPT ![c].pc = "stopped", ![c].renew = 0]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

SendRenewal(c) ==
  /\ our[c].pc = "holds" /\ ~TrustOver(our[c]) /\ W.late /\ our[c].renew = 0
  /\ our' = [our EXCEPT ![c].renew = 1]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* The renew script, and its reply.  Rule 7: nothing is renewed over a     *)
(* mark that is gone or foreign.  Rule 8: M then stays until the job has   *)
(* stopped.  Rule 9: both TTLs are set anew.                               *)
Renew(c) ==
  LET x == our[c]
      looked == Stands(c) \/ Without("renewal looks at L")
      long == x.phase = Modern /\ W.long > 0 /\ (x.life > W.gap \/ Without("long lease only after the gap"))
      grown == [x EXCEPT !.long = @ \/ long, !.renew = 0]
      token == IF x.on = "own" /\ Stands(c) THEN OwnToken(c, grown) ELSE [M EXCEPT !.by = c, !.ttl = Lasts(TTL(grown))]
      kept == [grown EXCEPT !.age = Max(0, x.renew - 1), !.heard = Hears(token)]
      lost == [x EXCEPT !.pc = "told lost", !.life = 0, !.renew = 0]
      deaf == [x EXCEPT !.renew = 0]
  IN  /\ x.pc = "holds" /\ ~TrustOver(x) /\ (W.late => x.renew > 0)
      /\ IF HasM(c) /\ looked
           THEN /\ \/ our' = [our EXCEPT ![c] = kept]
                   \/ W.deaf /\ our' = [our EXCEPT ![c] = grown]      \* the reply never comes
                /\ M' = token
                /\ L' = CASE x.on = "own" /\ Stands(c) -> OwnMark(c, kept)
                          [] x.on = "tombstone" /\ L.kind = "tombstone" /\ ~Without("tombstone's TTL restored") -> [L EXCEPT !.ttl = 0]
                          [] OTHER -> L
                /\ harm' = IF W.goal = "loss unnoticed" /\ x.touched THEN "loss unnoticed" ELSE harm
           ELSE /\ \/ our' = [our EXCEPT ![c] = lost]
                   \/ Without("M kept after a loss") /\ our' = [our EXCEPT ![c] = deaf]
                /\ M' = IF HasM(c) /\ Without("M kept after a loss") THEN NoToken ELSE M
                /\ harm' = IF W.goal = "lost for nothing" /\ M.by = c /\ ~x.touched THEN "lost for nothing" ELSE harm
                /\ UNCHANGED L
      /\ UNCHANGED <<world, old, fleet, once, record, member>>

(* The release script.  Rule 10: it compares, and leaves L alone where L   *)
(* does not have the client's mark.  From sealed on a tombstone replaces   *)
(* the guard; in or-mine dialects it replaces only a settled one.          *)
Leaves(c) ==
  LET settled == ~W.orMine \/ our[c].settled \/ Without("unsettled guard deleted")
  IN  IF ~HasM(c) \/ our[c].on # "own" \/ ~(Stands(c) \/ Without("release looks at L")) THEN L
      ELSE IF our[c].phase >= Sealed /\ settled THEN Tombstone ELSE None

ReleaseScript(c) ==
  /\ M' = IF HasM(c) THEN NoToken ELSE M
  /\ harm' = IF /\ W.goal = "trampled" /\ L.kind # "none" /\ ~Stands(c) /\ Leaves(c).kind # L.kind
                /\ \E o \in Old : OldHolds(o)
               THEN "trampled" ELSE harm
  /\ UNCHANGED <<world, fleet, once, record, member>>

Release(c) ==
  /\ our[c].pc = "stopped"
  /\ GivenUp(c)
  /\ L' = Forgotten(c, Leaves(c))
  /\ ReleaseScript(c)

(* A grant is not handed over once a release was sent for it.              *)
PassReleased(c) ==
  /\ Without("released grant not passed on")
  /\ our[c].pc = "stopped" /\ ~TrustOver(our[c])
  /\ our' = [our EXCEPT ![c].pc = "holds", ![c].renew = 0, ![c].released = TRUE]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

LateRelease(c) ==
  /\ our[c].released /\ (OursHolds(c) \/ our[c].pc = "idle")
  /\ our' = [our EXCEPT ![c].released = FALSE]
  /\ L' = Leaves(c)
  /\ UNCHANGED old
  /\ ReleaseScript(c)

(* Every attempt has its own token.  Without that rule a client begins     *)
(* again with the same token while its release is still on its way.        *)
GoOn(c) ==
  /\ Without("token new for every attempt")
  /\ our[c].pc = "stopped"
  /\ our' = [our EXCEPT ![c] = [Idle EXCEPT !.on = our[c].on, !.released = TRUE]]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

(* A look that takes nothing.  Rule 3: if the bytes differ, or the last    *)
(* look is too old, the observation begins anew.                           *)
Sample(c) ==
  /\ our[c].pc = "idle" /\ W.unchanged > 0 /\ L.kind = "stamp"
  /\ our' = [our EXCEPT ![c].last = 0,
               ![c].since = IF SameBytes(our[c].watch, L) THEN @ ELSE 0,
               ![c].watch = IF SameBytes(our[c].watch, L) THEN @ ELSE Seen(L)]
  /\ UNCHANGED <<world, L, M, old, fleet, once, record, member, harm>>

OurStep(c) ==
  \/ Try(c) \/ Send(c) \/ SendBlind(c) \/ Arrive(c) \/ Drop(c) \/ Answer(c)
  \/ Cancel(c)
  \/ Check(c) \/ LookAgain(c) \/ PassUnsettled(c) \/ SendRenewal(c) \/ Renew(c) \/ TellLost(c) \/ Stop(c)
  \/ Release(c) \/ GoOn(c) \/ PassReleased(c) \/ LateRelease(c) \/ Die(c) \/ Sample(c)

----------------------------------------------------------------------------
(* Time passes unless a client would exceed a bound.                       *)

Due ==
  \/ \E o \in Old :
       LET c == old[o] IN
       CASE c.pc \in {"absent", "idle", "rests"} -> FALSE
         [] OldHolds(o) -> ~W.overrun /\ c.age >= W.job
         [] c.pc = "reply next" -> c.age >= W.reply
         [] OTHER -> c.age >= W.gap
  \/ \E c \in Our :
       \/ our[c].pc = "holds" /\ (TrustOver(our[c]) \/ our[c].woken)
       \/ our[c].pc = "told lost" /\ our[c].life >= W.stop
  \/ W.stepUndone /\ once.step > W.lease

OldLater(o) ==
  LET c == old[o] IN
  CASE c.pc \in {"absent", "idle"} -> c
    [] c.pc = "rests" -> IF c.age + 1 >= W.rest THEN Resting ELSE [c EXCEPT !.age = @ + 1]
    [] OTHER ->
         [c EXCEPT !.age = IF OldHolds(o) /\ W.overrun THEN @ ELSE @ + 1,
                   !.stamp = IF W.takeover /\ (~OldHolds(o) \/ W.release = "at least own") THEN Aged(@) ELSE @,
                   !.seen = IF c.seen.kind = "stamp" THEN [@ EXCEPT !.at = Aged(@)] ELSE @]

OurLater(x) ==
  LET y == IF x.pc \in {"absent", "idle"} THEN x
           ELSE [x EXCEPT !.age = Min(@ + 1, LongAgo), !.life = Min(@ + 1, Settled + W.stop),
                          !.renew = IF @ > 0 THEN Min(@ + 1, LongAgo) ELSE 0,
                          !.heard = IF Without("stamp remembered in M") THEN Aged(@) ELSE @]
  IN  IF x.watch = Nothing THEN y
      ELSE IF x.last + 1 > W.sparse /\ ~Without("fresh samples")
        THEN [y EXCEPT !.watch = Nothing, !.since = 0, !.last = 0]
        ELSE [y EXCEPT !.watch.at = Aged(@), !.since = Min(@ + 1, W.unchanged + 1), !.last = Min(@ + 1, W.sparse)]

Tick ==
  /\ ~Due
  /\ L' = IF L.ttl = 1 THEN None
          ELSE [L EXCEPT !.at = IF L.kind = "stamp" THEN Aged(@) ELSE @, !.ttl = IF @ = 0 THEN 0 ELSE @ - 1]
  /\ M' = IF M.ttl <= 1 THEN NoToken ELSE [M EXCEPT !.at = Aged(@), !.ttl = @ - 1]
  /\ old' = [o \in Old |-> OldLater(o)]
  /\ LET seen == IF L.ttl = 1 THEN Touched(our, L) ELSE our
     IN  our' = [c \in Our |-> OurLater(seen[c])]
  /\ once' = [once EXCEPT !.step = IF @ > 0 THEN Min(@ + 1, W.lease + 2) ELSE @,
                           !.look = IF @ = NoLook THEN @ ELSE [@ EXCEPT !.at = Aged(@), !.age = Min(@ + 1, W.look)]]
  /\ UNCHANGED <<world, fleet, record, member, harm>>

(* All old clocks may be stepped back together, once. *)
FleetStep ==
  /\ W.fleetStep > 0 /\ fleet = 0
  /\ fleet' = -W.fleetStep
  /\ UNCHANGED <<world, L, M, old, our, once, record, member, harm>>

(* The server's clock may step, once, and with W.stepUndone back again     *)
(* within a greatest lease.  TTLs follow that clock, and stamps are        *)
(* measured by their distance from it.  What clients measure does not      *)
(* follow.                                                                 *)
ServerStep ==
  LET by == IF once.step = 0 THEN W.serverStep ELSE -W.serverStep
      ended == L.ttl > 0 /\ L.ttl <= by
  IN  /\ W.serverStep > 0 /\ (once.step = 0 \/ (W.stepUndone /\ once.step > 0))
      /\ once' = [once EXCEPT !.step = IF @ = 0 THEN 1 ELSE -1, !.look = NoLook]   \* two clocks disagree: anew
      /\ fleet' = fleet - by
      /\ L' = IF ended THEN None
              ELSE [L EXCEPT !.at = IF L.kind = "stamp" THEN Moved(@, by) ELSE @, !.ttl = IF @ = 0 THEN 0 ELSE @ - by]
      /\ M' = IF M = NoToken \/ M.ttl <= by THEN NoToken
              ELSE [M EXCEPT !.at = IF @ = Floor THEN @ ELSE Moved(@, by), !.ttl = @ - by]
      /\ old' = [o \in Old |->
           LET c == old[o]
               stamped == c.pc \notin {"absent", "idle", "rests"} /\ W.takeover /\ (~OldHolds(o) \/ W.release = "at least own")
           IN  [c EXCEPT !.stamp = IF stamped THEN Moved(@, by) ELSE @,
                         !.seen = IF c.seen.kind = "stamp" THEN [@ EXCEPT !.at = Moved(@, by)] ELSE @]]
      /\ LET seen == IF ended /\ M.ttl > by THEN Touched(our, L) ELSE our   \* alone
         IN  our' = [c \in Our |-> IF seen[c].watch.kind = "stamp" THEN [seen[c] EXCEPT !.watch.at = Moved(@, by)] ELSE seen[c]]
      /\ UNCHANGED <<world, record, member, harm>>

(* Another program sends an EXPIRE, once, while a lease depends on L.      *)
(* Clients that watch L hear of it.                                        *)
Shorten ==
  /\ W.shorten > 0 /\ ~once.cut
  /\ \E c \in Our : our[c].on # "nothing" /\ our[c].pc \in {"answer", "settles", "holds", "told lost", "stopped"} /\ Stands(c)
  /\ once' = [once EXCEPT !.cut = TRUE]
  /\ L' = [L EXCEPT !.ttl = Lasts(W.shorten)]
  /\ our' = [c \in Our |-> [our[c] EXCEPT !.woken = @ \/ (our[c].pc = "holds" /\ our[c].on # "nothing")]]
  /\ UNCHANGED <<world, M, old, fleet, record, member, harm>>

----------------------------------------------------------------------------

Init ==
  /\ world \in DOMAIN Worlds
  /\ L = IF W.phase \in Sealed .. Modern THEN Tombstone ELSE None
  /\ M = NoToken
  /\ old = [o \in Old |-> IF o <= W.old THEN Resting ELSE [Resting EXCEPT !.pc = "absent"]]
  /\ our = [c \in Our |-> IF c - 10 <= W.ours THEN Idle ELSE [Idle EXCEPT !.pc = "absent"]]
  /\ fleet = 0
  /\ once = [step |-> 0, look |-> NoLook, cut |-> FALSE, older |-> 0, away |-> {}, unsaid |-> {}]
  /\ record = W.phase
  /\ member = [c \in Our |-> IF Without("no phase, no lock") /\ c = 11 THEN NoPhase ELSE W.phase]
  /\ harm = "none"

BridgeNext ==
  \/ \E o \in Old : OldStep(o)
  \/ \E c \in Our : OurStep(c)
  \/ FleetStep \/ ServerStep \/ Shorten
  \/ Tick

BridgeSpec == Init /\ [][BridgeNext]_vars

(* What must not happen.  "two hold": exclusion together with honest old   *)
(* clients.  "two of ours hold": promise 1, whatever old clients do.       *)
(* "loss unnoticed": a renewal succeeds over a touched mark.  "trampled":  *)
(* a release deletes an old holder's value.  "job lost": a getsetlock      *)
(* client held and has to break off although all clients were honest.      *)
(* "lost for nothing": a client is told of a loss although both keys were  *)
(* its own.                                                                *)
OursHolding == Cardinality({c \in Our : OursHolds(c)})
OldHolding == Cardinality({o \in Old : OldHolds(o)})

Harmless ==
  CASE W.goal = "two hold" -> IF W.ours = 0 THEN OldHolding <= 1 ELSE OursHolding <= 1 /\ ~(OursHolding = 1 /\ OldHolding > 0)
    [] W.goal = "job lost" -> \A c \in Our : ~(our[c].pc = "holds" /\ our[c].touched /\ ~TrustOver(our[c]))
    [] W.goal \in {"trampled", "lost for nothing"} -> harm = "none"
    [] OTHER -> OursHolding <= 1 /\ harm = "none"          \* two of ours hold, loss unnoticed
=============================================================================
