\* SPDX-License-Identifier: Apache-2.0
----------------------------- MODULE Tombstone ------------------------------
(***************************************************************************)
(* The phases of a migration: observe, dual, sealed, modern, clean.  From  *)
(* sealed on L has a tombstone, a constant that every old client takes for *)
(* held and getsetlock clients take for free.  They hold M, and their      *)
(* lease depends on the tombstone.                                         *)
(*                                                                         *)
(* The record moves one phase at a time, forwards or back, and each step   *)
(* has a gate.  A member starts to use a phase at its next attempt.  A     *)
(* lease keeps the phase in which it was taken.                            *)
(***************************************************************************)
EXTENDS Bridge

(* A member reads the record before an attempt.  Where a record may be     *)
(* restored, a member's heartbeats also read it while its lease runs.  A   *)
(* member that has read a later record than the present one keeps to that. *)
Learn(c) ==
  /\ c \in Heard /\ member[c] # record
  /\ our[c].pc = "idle" \/ W.restored
  /\ ~Older(c) \/ Without("an older record moves nobody")
  /\ member' = [member EXCEPT ![c] = record]
  /\ UNCHANGED <<world, L, M, old, our, fleet, once, record, harm>>

(* The window without writes of old clients becomes "no old client makes   *)
(* an attempt or holds now", which is less than a window promises.  A job  *)
(* that runs for ever outlasts every window.                               *)
Quiet ==
  \/ W.overrun
  \/ Without("no old client at the gate")
  \/ \A o \in Old : old[o].pc \in {"absent", "idle"}

(* No member lags behind; for modern and clean no lease does either.       *)
GateTo(next) ==
  \/ Without("one step at a time")
  \/ ~Refuses /\
     CASE next = Dual -> \A p \in Members : p >= Observe
       [] next = Sealed -> (\A p \in Members : p >= Dual) /\ Quiet
       [] next = Modern -> (\A p \in Members \cup Leases : p >= Sealed) /\ Quiet
       [] next = Clean -> (\A p \in Members \cup Leases : p >= Modern) /\ Quiet

Advance ==
  /\ record < W.to /\ GateTo(record + 1)
  /\ record' = record + 1
  /\ once' = [once EXCEPT !.older = Min(2 * @, 2)]
  /\ UNCHANGED <<world, L, M, old, our, fleet, member, harm>>

(* Back to observe waits for the last tombstone, which observe takes for   *)
(* held, and for every client that would leave one.                        *)
GateBack ==
  \/ Without("one step at a time")
  \/ ~Refuses /\
     IF record # Dual THEN W.forget \/ \A p \in Members : p >= record
     ELSE L.kind # "tombstone" /\ (\A p \in Members : p = Dual) /\ \A p \in Leases : p <= Dual

Back ==
  /\ record > W.phase /\ record # Clean /\ GateBack
  /\ record' = record - 1
  /\ UNCHANGED <<world, L, M, old, our, fleet, once, member, harm>>

(* Tombstones are deleted last: on the way back only where no lease        *)
(* depends on one, after clean only when every member and lease is at      *)
(* clean.                                                                  *)
Sweep ==
  /\ W.phase < W.to /\ L.kind = "tombstone"
  /\ \/ Without("tombstones deleted last") /\ (record \in {Dual, Clean} \/ (record = Modern /\ W.to = Clean))
     \/ record = Clean /\ ~Refuses /\ \A p \in Members \cup Leases : p = Clean
     \/ record = Dual /\ M = NoToken
  /\ L' = None
  /\ our' = Touched(our, L)
  /\ UNCHANGED <<world, M, old, fleet, once, record, member, harm>>

(* Only a script that takes M puts a missing tombstone back.  Any other    *)
(* client that did it would hide a loss.                                   *)
Restore ==
  /\ Without("tombstone put back only with M")
  /\ W.phase < W.to /\ record \in Sealed .. Modern /\ L = None
  /\ L' = Tombstone
  /\ UNCHANGED <<world, M, old, our, fleet, once, record, member, harm>>

(* After clean a new record may begin, with observe.                       *)
Again ==
  /\ W.again /\ record = Clean
  /\ record' = Observe
  /\ UNCHANGED <<world, L, M, old, our, fleet, once, member, harm>>

(* The record may be replaced by its first version, as by a restore.  Its  *)
(* epoch is less than that of members that have read a later one.          *)
Revert ==
  /\ W.restored /\ once.older = 0 /\ record > W.phase
  /\ record' = W.phase
  /\ once' = [once EXCEPT !.older = 1]
  /\ UNCHANGED <<world, L, M, old, our, fleet, member, harm>>

(* The heartbeats of a member may stop and return.  Its leases continue.   *)
Vanish(c) ==
  /\ W.vanishes /\ c \in Heard
  /\ once' = [once EXCEPT !.away = @ \cup {c}]
  /\ UNCHANGED <<world, L, M, old, our, fleet, record, member, harm>>

Beat(c) ==
  /\ c \in Here \ Heard
  /\ once' = [once EXCEPT !.away = @ \ {c}, !.unsaid = @ \ {c}]
  /\ UNCHANGED <<world, L, M, old, our, fleet, record, member, harm>>

(* The registry may lose its members while the record stays.  They         *)
(* continue with what they know, and each is a member again with its next  *)
(* heartbeat.                                                              *)
Empty ==
  /\ W.empties /\ once.unsaid # Here
  /\ once' = [once EXCEPT !.away = {}, !.unsaid = Here]
  /\ UNCHANGED <<world, L, M, old, our, fleet, record, member, harm>>

Next ==
  \/ BridgeNext
  \/ \E c \in Our : Learn(c) \/ Vanish(c) \/ Beat(c)
  \/ Advance \/ Back \/ Again \/ Revert \/ Empty \/ Sweep \/ Restore

Spec == Init /\ [][Next]_vars
=============================================================================
