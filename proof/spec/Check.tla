\* SPDX-License-Identifier: Apache-2.0
------------------------------- MODULE Check --------------------------------
(***************************************************************************)
(* One run of TLC over all of Worlds.  A world that has failed is searched *)
(* no further.  So with -continue and one worker each world that fails     *)
(* shows one trace, a shortest one.                                        *)
(***************************************************************************)
EXTENDS Tombstone, Sequences, TLC

ASSUME \A w \in DOMAIN Worlds : TLCSet(w, "up")

Unfallen == TLCGet(world) = "up"
FirstHarm == Harmless \/ ~Unfallen \/ (TLCSet(world, "fallen") /\ FALSE)
=============================================================================
