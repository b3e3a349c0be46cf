\* SPDX-License-Identifier: Apache-2.0
------------------------------ MODULE Verbatim ------------------------------
(***************************************************************************)
(* The timestamp lock as the original Jedis class does it: SETNX with a    *)
(* stamp of the client's own clock.  If that fails: GET, compare with the  *)
(* own clock, GETSET, compare again.  Time is counted in ticks.  What      *)
(* takes no time happens within a tick, in any order.                      *)
(*                                                                         *)
(* The question is Exclusion: can two clients work at once?  The closed    *)
(* form in package skew answers it by Job + Delay > Lease + 1 - Ahead.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
  N,        \* number of clients, 1 .. N
  Lease,    \* what a client adds to its clock, besides one tick of slack
  Job,      \* the longest time from winning to the server executing the DEL
  Delay,    \* the longest time from a clock reading to the write that contains it
  Ahead,    \* how far the clock of client 2 is ahead of the other clocks
  Wins,     \* "same": GETSET returned what GET did; "expired": what it returned has expired too
  OrMine,   \* TRUE: a client's own value counts as expired, as in the class after 2015
  Anew,     \* TRUE: the clock is read when the command executes, which no real client does
  Horizon   \* where time ends

VARIABLES now, key, owner, pc, stamp, seen, read, since

vars == <<now, key, owner, pc, stamp, seen, read, since>>

Clients == 1 .. N
Nothing == -1000          \* no key
Dead    == -100           \* a stamp that has expired by every clock
Clock(c) == now + IF c = 2 THEN Ahead ELSE 0
Fresh(c) == Clock(c) + Lease + 1

Init ==
  /\ now = 0
  /\ key \in {Nothing, Dead}
  /\ owner = 0                              \* the writer of the key's value; 0: no living client
  /\ pc = [c \in Clients |-> "idle"]
  /\ stamp = [c \in Clients |-> 0]
  /\ seen = [c \in Clients |-> 0]           \* the value and its writer that GET returned
  /\ read = [c \in Clients |-> 0]
  /\ since = [c \in Clients |-> 0]

(* The stamp is fixed before the SETNX, and the GETSET writes the same     *)
(* one.                                                                    *)
Begin(c) ==
  /\ pc[c] = "idle"
  /\ pc' = [pc EXCEPT ![c] = "setnx"]
  /\ stamp' = [stamp EXCEPT ![c] = Fresh(c)]
  /\ read' = [read EXCEPT ![c] = now]
  /\ UNCHANGED <<now, key, owner, seen, since>>

Carried(c) == IF Anew THEN Fresh(c) ELSE stamp[c]

Win(c) ==
  /\ pc' = [pc EXCEPT ![c] = "work"]
  /\ since' = [since EXCEPT ![c] = now]

Setnx(c) ==
  /\ pc[c] = "setnx"
  /\ IF key = Nothing
       THEN key' = Carried(c) /\ owner' = c /\ Win(c)
       ELSE pc' = [pc EXCEPT ![c] = "get"] /\ UNCHANGED <<key, owner, since>>
  /\ UNCHANGED <<now, stamp, seen, read>>

Get(c) ==
  /\ pc[c] = "get"
  /\ IF key # Nothing /\ (key < Clock(c) \/ (OrMine /\ owner = c))
       THEN pc' = [pc EXCEPT ![c] = "getset"] /\ seen' = [seen EXCEPT ![c] = <<key, owner>>]
       ELSE pc' = [pc EXCEPT ![c] = "idle"] /\ UNCHANGED seen
  /\ UNCHANGED <<now, key, owner, stamp, read, since>>

(* GETSET writes whether it wins or not: a client that loses has clobbered *)
(* the winner's value.                                                     *)
Getset(c) ==
  /\ pc[c] = "getset"
  /\ key' = Carried(c)
  /\ owner' = c
  /\ IF \/ Wins = "same" /\ <<key, owner>> = seen[c]
        \/ Wins = "expired" /\ key # Nothing /\ key < Clock(c)
       THEN Win(c)
       ELSE pc' = [pc EXCEPT ![c] = "idle"] /\ UNCHANGED since
  /\ UNCHANGED <<now, stamp, seen, read>>

(* DEL by a local flag, whichever client holds the key now.                *)
Release(c) ==
  /\ pc[c] = "work"
  /\ key' = Nothing
  /\ owner' = 0
  /\ pc' = [pc EXCEPT ![c] = "idle"]
  /\ UNCHANGED <<now, stamp, seen, read, since>>

(* Time passes unless a client would exceed a bound.                       *)
Tick ==
  /\ now < Horizon
  /\ \A c \in Clients :
       /\ pc[c] = "work" => now < since[c] + Job
       /\ pc[c] \in {"setnx", "get", "getset"} => now < read[c] + Delay
  /\ now' = now + 1
  /\ UNCHANGED <<key, owner, pc, stamp, seen, read, since>>

Next == Tick \/ \E c \in Clients : Begin(c) \/ Setnx(c) \/ Get(c) \/ Getset(c) \/ Release(c)

Spec == Init /\ [][Next]_vars

Exclusion == Cardinality({c \in Clients : pc[c] = "work"}) <= 1
=============================================================================
