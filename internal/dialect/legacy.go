// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"strconv"
	"strings"
	"time"
)

// Reply is a reply to GET or GETSET as the old client sees it: a value's bytes,
// or nil.
type Reply struct {
	Value string
	Nil   bool
}

// Nil returns the reply for a missing key.
func Nil() Reply { return Reply{Nil: true} }

// Text returns the reply for an existing key.
func Text(value string) Reply { return Reply{Value: value} }

// kind is the kind of a reading.
type kind string

const (
	kindNumber     kind = "number"
	kindNil        kind = "nil"        // nil, or a text that the client's language takes for nil
	kindUnreadable kind = "unreadable" // not a number; the dialect's Unreadable rule says what follows
)

// reading is what the old client's own parser makes of a value. Some languages
// have numbers beyond 64 bits; these are stored as the nearest 64-bit number,
// since only their order against a clock matters.
type reading struct {
	Kind    kind
	IsFloat bool
	Int     int64   // number, unless IsFloat
	Float   float64 // number, if IsFloat; may be NaN or infinite
	UUID    string  // uuid for ReadJavaUUID, normalised to UUID.toString's form
	Text    string  // decoded text; PHP 8 compares it where it is not a number
}

// read reads a reply with the old client's own parser, quirks included. It says
// what that client would do, never what a value means: see Decode for that. A
// value that is not in the dialect's encoding is unreadable.
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

// Step is what the old client does next after the GET that followed its lost
// SETNX.
type Step string

// The steps. A client that waits or fails has written nothing since its SETNX.
const (
	StepWait      Step = "wait"       // sleep Poll, then the next attempt, if the wait allows one
	StepGetset    Step = "getset"     // the value counts as expired: GETSET
	StepSetnxOnce Step = "setnx_once" // one more SETNX, then the attempt ends either way
	StepAgain     Step = "again"      // a new attempt at once, without sleeping
	StepGiveUp    Step = "give_up"    // the acquire ends, not acquired
	StepFail      Step = "fail"       // the acquire ends with an exception
)

// LegacyNext returns what the old client does after its GET returned seen. id
// is the client's own uuid, if the dialect has one. now is the clock reading
// that the client judges by: a new one if JudgesAnew, otherwise the one that
// made its stamp.
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

// LegacyExpired reports whether the old client answers this value with a
// GETSET.
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

// past compares a number with the clock in the dialect's unit. NaN is never
// past in a strict comparison ("v < now"). It is always past in an inclusive
// one, which the clients write as "not v > now".
func (d Dialect) past(r reading, now time.Time) bool {
	now = now.Add(-d.added())
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

// php8Past compares a text that is not a number as PHP 8 does: with the clock's
// digits, byte by byte.
func (d Dialect) php8Past(r reading, now time.Time) bool {
	n, _ := unitCount(d.Unit, now.Add(-d.added()))
	order := strings.Compare(r.Text, strconv.FormatInt(n, 10))
	return order < 0 || d.Inclusive && order == 0
}

// Outcome is what the old client concludes from its GETSET's reply. In every
// case its own value is on the key by then.
type Outcome string

// The outcomes.
const (
	Won   Outcome = "won"
	Lost  Outcome = "lost"  // back to waiting; its value stays on the key
	Threw Outcome = "threw" // an exception ends the acquire; its value stays on the key
)

// LegacyWins returns whether the old client believes that it holds the lock
// after its GETSET returned old. seen is what the GET before returned; now is
// as in LegacyNext.
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

// winsEqual throws where the language does: for Gorlock, nil and unreadable
// replies are errors. JavaScript's == reads the GETSET's reply by other rules
// than parseFloat read the GET's. Trailing junk was ignored there and is NaN
// here, which equals nothing. The empty text was nil there and is 0 here.
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
	ReleaseCompares ReleaseStep = "compare_and_delete" // the server compares the whole value and decides
	ReleaseLeaves   ReleaseStep = "leave"
	ReleaseFails    ReleaseStep = "fail" // an exception ends the release; the key stays
)

// ReleaseGets reports whether the release looks at the key before it deletes
// it.
func (d Dialect) ReleaseGets() bool {
	switch d.Release {
	case ReleaseValueLive, ReleaseValueOwn, ReleaseValueAtLeastOwn:
		return true
	}
	return false
}

// LegacyReleases returns what the old client's release does. own is the bytes
// it wrote when it won. seen is the reply to the release's GET, if ReleaseGets.
// now is its clock at the release.
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

// releasesAtLeast leaves a missing key alone: those clients read it as 1, and
// every stamp of their own is greater. TaskTiger catches unreadable values in
// its acquire but not in its release.
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
