// SPDX-License-Identifier: Apache-2.0

package explore

// Act is one step of one client, of the server or of time.
type Act struct {
	Kind Kind
	Who  int8 // the client's name, or Nobody
	Arg  int8 // a clock offset, ticks or a phase, as Kind needs
	Out  Outcome
}

// Kind is what an act is. Other clients have kinds from Kinds on.
type Kind int8

// The kinds of time, of old clients and of the server.
const (
	ActTick Kind = iota
	ActRead
	ActSetnx
	ActGet
	ActJudge
	ActGetset
	ActReply
	ActExpire
	ActLast
	ActLook
	ActDecide
	ActDel
	ActExtend
	ActCrash
	ActQuit
	ActFleet
	ActServer

	Kinds
)

// Outcome is the result of an act. Other clients have outcomes from Outcomes
// on.
type Outcome int8

// The outcomes of old clients' acts.
const (
	OutNone Outcome = iota
	OutWon
	OutLost
	OutNil
	OutDone
	OutMissing
	OutKept
	OutOther
	OutGreatest

	Outcomes
)

// Note marks a step that is a finding by itself, or leads to one.
type Note uint8

// The notes of old clients' steps. Other clients have notes from Notes on.
const (
	NoteClobber Note = 1 << iota
	NoteGhost
	NoteForeignDel

	Notes
)

// Step is one possible next state of a world.
type Step[S any] struct {
	Act  Act
	To   S
	Note Note
}
