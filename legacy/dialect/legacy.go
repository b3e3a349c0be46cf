package dialect

import (
	"strconv"
	"strings"
	"time"
)

// Reply is a GET's or GETSET's reply as the old client sees it: a value's bytes, or nil.
type Reply struct {
	Value string
	Nil   bool
}

// Nil is the reply of a missing key.
func Nil() Reply { return Reply{Nil: true} }

// Text is the reply of an existing key.
func Text(value string) Reply { return Reply{Value: value} }

// kind of a reading.
type kind string

const (
	kindNumber     kind = "number"
	kindNil        kind = "nil"        // nil, or a text that the language takes for nil
	kindUnreadable kind = "unreadable" // what follows is the dialect's Unreadable rule
)

// reading is what the old client's own parser makes of a value. Numbers beyond 64 bits, in languages
// that have them, are held as the nearest 64-bit one: only their order against a clock matters.
type reading struct {
	Kind    kind
	IsFloat bool
	Int     int64   // unless IsFloat
	Float   float64 // if IsFloat; may be NaN or infinite
	UUID    string  // of ReadJavaUUID, normalised to UUID.toString's form
	Text    string  // decoded; PHP 8 compares it where it is no number
}

// read reads a reply with the old client's own parser, quirks included. It says what that client
// would do, never what a value means: see Decode for that. A value that is not in the dialect's
// encoding is unreadable.
func (d Dialect) read(reply Reply) reading {
	if reply.Nil {
		return reading{Kind: kindNil}
	}
	text, err := d.DecodeValue(reply.Value)
	if err != nil {
		return reading{Kind: kindUnreadable, Text: reply.Value}
	}
	if d.takesForNil(text) {
		return reading{Kind: kindNil, Text: text}
	}
	r := readNumber(d.Reader, text)
	r.Text = text
	return r
}

func (d Dialect) takesForNil(text string) bool {
	switch d.Empty {
	case EmptyIsNil:
		return text == ""
	case EmptyZeroIsNil:
		return text == "" || text == "0"
	}
	return false
}

// Step is what the old client does next after the GET that followed its lost SETNX.
type Step string

// The steps. A client that waits or fails has written nothing since its SETNX.
const (
	StepWait      Step = "wait"       // sleep Poll, then the next attempt, if the wait allows one
	StepGetset    Step = "getset"     // it counts as expired
	StepSetnxOnce Step = "setnx_once" // one more SETNX, then the attempt ends either way
	StepAgain     Step = "again"      // a new attempt at once, without sleeping
	StepGiveUp    Step = "give_up"    // the acquire ends, not acquired
	StepFail      Step = "fail"       // the acquire ends with an exception
)

// LegacyNext says what the old client does after its GET returned seen. id is its own uuid, where the
// dialect has one. now is the clock reading that this client judges by: a new one if JudgesAnew, else
// the one that made its stamp.
func (d Dialect) LegacyNext(seen Reply, id string, now time.Time) Step {
	if !d.HasTakeover() {
		return StepWait
	}
	r := d.read(seen)
	if d.OrMine && r.UUID != "" && r.UUID == id {
		return StepGetset
	}
	switch r.Kind {
	case kindNil:
		return d.nilStep()
	case kindUnreadable:
		return d.unreadableStep(r, now)
	}
	if d.Empty == EmptyZeroIsHeld && r.Int == 0 && !r.IsFloat {
		return StepWait
	}
	return d.heldOrGetset(d.past(r, now))
}

// LegacyExpired reports that the old client answers this value with a GETSET.
func (d Dialect) LegacyExpired(seen Reply, id string, now time.Time) bool {
	return d.LegacyNext(seen, id, now) == StepGetset
}

func (d Dialect) nilStep() Step {
	switch d.OnNil {
	case NilGetset:
		return StepGetset
	case NilGivesUp:
		return StepGiveUp
	case NilError:
		return StepFail
	case NilSetnx:
		if d.SetnxAfterHeld {
			return StepSetnxOnce
		}
		return StepAgain
	}
	return StepWait
}

func (d Dialect) unreadableStep(r reading, now time.Time) Step {
	switch d.Unreadable {
	case UnreadableThrows:
		return StepFail
	case UnreadableHeld, UnreadableErrorRetry:
		return d.heldOrGetset(false)
	}
	if d.Reader == ReadPHP8 {
		return d.heldOrGetset(d.php8Past(r, now))
	}
	return StepGetset
}

func (d Dialect) heldOrGetset(expired bool) Step {
	if expired {
		return StepGetset
	}
	if d.SetnxAfterHeld {
		return StepSetnxOnce
	}
	return StepWait
}

// past compares a number with the clock in the dialect's unit. NaN is never past in a strict
// comparison ("v < now") and always in an inclusive one, which the clients write as "not v > now".
func (d Dialect) past(r reading, now time.Time) bool {
	if r.IsFloat || d.Unit == UnitFloatSeconds {
		v, n := r.Float, d.nowFloat(now)
		if !r.IsFloat {
			v = float64(r.Int)
		}
		if d.Inclusive {
			return !(v > n)
		}
		return v < n
	}
	n, ok := unitCount(d.Unit, now)
	if !ok {
		return now.Unix() > 0
	}
	return r.Int < n || d.Inclusive && r.Int == n
}

func (d Dialect) nowFloat(now time.Time) float64 {
	if d.Unit == UnitFloatSeconds {
		return floatSeconds(now)
	}
	n, _ := unitCount(d.Unit, now)
	return float64(n)
}

// php8Past compares a text that is no number as PHP 8 does: with the clock's own digits, byte by byte.
func (d Dialect) php8Past(r reading, now time.Time) bool {
	n, _ := unitCount(d.Unit, now)
	order := strings.Compare(r.Text, strconv.FormatInt(n, 10))
	return order < 0 || d.Inclusive && order == 0
}

// Outcome is what the old client makes of its GETSET's reply. Its own value stands on the key in
// every case.
type Outcome string

// The outcomes.
const (
	Won   Outcome = "won"
	Lost  Outcome = "lost"  // back to waiting; the clobbered value stays
	Threw Outcome = "threw" // an exception leaves the acquire; the clobbered value stays
)

// LegacyWins says whether the old client believes that it holds the lock after a GETSET that returned
// old, when the GET before had returned seen. now is as in LegacyNext.
func (d Dialect) LegacyWins(old, seen Reply, now time.Time) Outcome {
	switch d.Wins {
	case WinsSameText:
		return wonIf(!old.Nil && !seen.Nil && old.Value == seen.Value && d.read(old).Kind != kindNil)
	case WinsEqualNumber:
		return d.winsEqual(old, d.read(old), d.read(seen))
	case WinsExpired, WinsExpiredOrNil:
		return d.winsExpired(d.read(old), now)
	}
	return Lost
}

func (d Dialect) winsExpired(r reading, now time.Time) Outcome {
	switch r.Kind {
	case kindNil:
		return wonIf(d.Wins == WinsExpiredOrNil)
	case kindUnreadable:
		switch d.unreadableStep(r, now) {
		case StepGetset:
			return Won
		case StepFail:
			return Threw
		}
		return Lost
	}
	return wonIf(d.past(r, now))
}

// winsEqual is strict where the language throws: Gorlock's nil and unreadable replies are errors.
// JavaScript's == reads the reply by other rules than parseFloat read the GET's: trailing junk was
// ignored there and is NaN here, which equals nothing; the empty text was nil there and is 0 here.
func (d Dialect) winsEqual(reply Reply, old, seen reading) Outcome {
	if d.Reader == ReadJSParseFloat || d.Reader == ReadJSParseInt {
		return wonIf(!reply.Nil && seen.Kind == kindNumber && jsNumber(old.Text) == seen.Float)
	}
	if old.Kind != kindNumber && d.Unreadable == UnreadableThrows {
		return Threw
	}
	if old.Kind != kindNumber || seen.Kind != kindNumber {
		return Lost
	}
	if old.IsFloat || seen.IsFloat {
		return wonIf(old.float() == seen.float())
	}
	return wonIf(old.Int == seen.Int)
}

func (r reading) float() float64 {
	if r.IsFloat {
		return r.Float
	}
	return float64(r.Int)
}

func wonIf(won bool) Outcome {
	if won {
		return Won
	}
	return Lost
}

// ReleaseStep is what the old client's release does.
type ReleaseStep string

// The release steps.
const (
	ReleaseDeletes  ReleaseStep = "del"
	ReleaseCompares ReleaseStep = "compare_and_delete" // the server decides, by whole value
	ReleaseLeaves   ReleaseStep = "leave"
	ReleaseFails    ReleaseStep = "fail" // an exception leaves the release; the key stays
)

// ReleaseGets reports that the release looks at the key before it deletes.
func (d Dialect) ReleaseGets() bool {
	switch d.Release {
	case ReleaseValueLive, ReleaseValueOwn, ReleaseValueAtLeastOwn:
		return true
	}
	return false
}

// LegacyReleases says what the old client's release does. own is the value it wrote when it won, as
// bytes; seen is the reply to its GET, if ReleaseGets; now is its clock at the release.
func (d Dialect) LegacyReleases(own string, seen Reply, now time.Time) ReleaseStep {
	switch d.Release {
	case ReleaseDel:
		return ReleaseDeletes
	case ReleaseCompare:
		return ReleaseCompares
	case ReleaseNever:
		return ReleaseLeaves
	case ReleaseValueOwn:
		return deletesIf(!seen.Nil && seen.Value == own)
	case ReleaseValueLive:
		return d.releasesLive(d.read(seen), now)
	case ReleaseValueAtLeastOwn:
		return d.releasesAtLeast(d.read(seen), d.read(Text(own)))
	}
	r := d.read(Text(own))
	if r.Kind != kindNumber {
		return ReleaseLeaves
	}
	strict := d
	strict.Inclusive = d.Release == ReleaseOwnAhead
	return deletesIf(!strict.past(r, now))
}

func (d Dialect) releasesLive(r reading, now time.Time) ReleaseStep {
	switch r.Kind {
	case kindNumber:
		return deletesIf(!d.past(r, now))
	case kindNil:
		if d.Unreadable == UnreadableThrows {
			return ReleaseFails
		}
		return ReleaseLeaves
	}
	switch d.unreadableStep(r, now) {
	case StepFail:
		return ReleaseFails
	case StepGetset:
		return ReleaseLeaves
	}
	return ReleaseDeletes
}

// releasesAtLeast reads a missing key as 1, like the acquire of the same clients, which no own stamp
// is below. TaskTiger guards its acquire against unreadable values and not its release.
func (d Dialect) releasesAtLeast(seen, own reading) ReleaseStep {
	switch seen.Kind {
	case kindNil:
		return ReleaseLeaves
	case kindUnreadable:
		return ReleaseFails
	}
	return deletesIf(seen.float() >= own.float())
}

func deletesIf(yes bool) ReleaseStep {
	if yes {
		return ReleaseDeletes
	}
	return ReleaseLeaves
}
