------------------------------- MODULE Check --------------------------------
(***************************************************************************)
(* One run of TLC over all of Worlds.  A world that has fallen is searched *)
(* no further, so with -continue and one worker each that falls shows one  *)
(* trace, a shortest one.                                                  *)
(***************************************************************************)
EXTENDS Tombstone, Sequences, TLC

ASSUME \A w \in DOMAIN Worlds : TLCSet(w, "up")

Unfallen == TLCGet(world) = "up"
FirstHarm == Harmless \/ ~Unfallen \/ (TLCSet(world, "fallen") /\ FALSE)
=============================================================================
