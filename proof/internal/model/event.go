// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

type (
	event = explore.Act
	step  = explore.Step[state]
)

// The kinds of acts of getsetlock clients and of what only they use.
const (
	evSend explore.Kind = explore.Kinds + iota
	evCancel
	evAcquire
	evAnswer
	evCheck
	evPass
	evRenew
	evRenewed
	evToldLost
	evStop
	evRelease
	evDie
	evSample
	evDrop

	evLearn
	evAdvance
	evBack
	evSweep
	evRestore
	evInit
	evLate
	evShorten
	evRevert
	evVanish
	evBeat
	evEmpty
	evLose
	evForget
	evEnter
	evAsk
	evRoll
	evTime
	evNote
	evBegin
	evFlush
)

// The outcomes that only they have.
const (
	outHeld explore.Outcome = explore.Outcomes + iota
	outTakeover
	outNoted
)

// The notes of steps that are findings about getsetlock clients.
const (
	noteUnnoticed explore.Note = explore.Notes << iota
	noteTrampled
	noteFalseLoss
	noteUntombed
)
