------------------------------ MODULE Verbatim ------------------------------
(***************************************************************************)
(* The timestamp lock as the original Jedis class speaks it: SETNX a stamp *)
(* of the client's own clock, and when that fails GET, compare with one's  *)
(* own clock, GETSET, compare again.  Time is counted in ticks; what takes *)
(* no time happens within a tick, in any order.                            *)
(*                                                                         *)
(* The question is Exclusion: can two clients work at once?  The closed    *)
(* form in package skew answers it by Job + Delay > Lease + 1 - Ahead.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
  N,        \* how many clients, 1 .. N
  Lease,    \* what a client adds to its clock, besides one tick of slack
  Job,      \* the longest time from winning to the server executing the DEL
  Delay,    \* the longest time from a clock reading to the write that carries it
  Ahead,    \* how far the clock of client 2 is ahead of the others'
  Wins,     \* "same": GETSET returned what GET did; "expired": what it returned is expired too
  OrMine,   \* TRUE: a value of one's own counts as expired, as in the class after 2015
  Anew,     \* TRUE: stamps are read when the command executes, which no client does
  Horizon   \* where time ends

VARIABLES now, key, owner, pc, stamp, seen, read, since

vars == <<now, key, owner, pc, stamp, seen, read, since>>

Clients == 1 .. N
Nothing == -1000          \* no key
Dead    == -100           \* a stamp that is over by every clock
Clock(c) == now + IF c = 2 THEN Ahead ELSE 0
Fresh(c) == Clock(c) + Lease + 1

Init ==
  /\ now = 0
  /\ key \in {Nothing, Dead}
  /\ owner = 0                              \* whose value is on the key; 0: nobody's who lives
  /\ pc = [c \in Clients |-> "idle"]
  /\ stamp = [c \in Clients |-> 0]
  /\ seen = [c \in Clients |-> 0]           \* value and owner that GET returned
  /\ read = [c \in Clients |-> 0]
  /\ since = [c \in Clients |-> 0]

(* The stamp is fixed before the SETNX, and the GETSET writes the same one. *)
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

(* GETSET writes whether it wins or not: the loser has clobbered the winner's value. *)
Getset(c) ==
  /\ pc[c] = "getset"
  /\ key' = Carried(c)
  /\ owner' = c
  /\ IF \/ Wins = "same" /\ <<key, owner>> = seen[c]
        \/ Wins = "expired" /\ key # Nothing /\ key < Clock(c)
       THEN Win(c)
       ELSE pc' = [pc EXCEPT ![c] = "idle"] /\ UNCHANGED since
  /\ UNCHANGED <<now, stamp, seen, read>>

(* DEL by a local flag: whoever holds the key now. *)
Release(c) ==
  /\ pc[c] = "work"
  /\ key' = Nothing
  /\ owner' = 0
  /\ pc' = [pc EXCEPT ![c] = "idle"]
  /\ UNCHANGED <<now, stamp, seen, read, since>>

(* Time goes on unless somebody would exceed a bound. *)
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
