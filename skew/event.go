package skew

// event is one step of one client, of the server or of time.
type event struct {
	kind eventKind
	who  int8 // the client's name, or nobody
	arg  int8 // a clock offset, ticks or a phase, as kind needs
	out  outcome
}

type eventKind int8

const (
	evTick eventKind = iota
	evRead
	evSetnx
	evGet
	evJudge
	evGetset
	evReply
	evExpire
	evLast
	evLook
	evDecide
	evDel
	evExtend
	evCrash
	evQuit
	evFleet
	evServer

	evSend
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

// outcome is the result of an event.
type outcome int8

const (
	outNone outcome = iota
	outWon
	outLost
	outNil
	outHeld
	outDone
	outTakeover
	outMissing
	outKept
	outOther
	outNoted
	outGreatest
)

// note marks a step that is a finding by itself, or leads to one.
type note uint8

const (
	noteClobber note = 1 << iota
	noteGhost
	noteForeignDel
	noteUnnoticed
	noteTrampled
	noteFalseLoss
	noteUntombed
)

// step is one possible next state.
type step struct {
	ev   event
	to   state
	note note
}
