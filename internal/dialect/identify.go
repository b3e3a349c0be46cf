// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Look is what a value may be.
type Look string

// The looks. No value is said to be getsetlock's by its form alone: a guard
// looks like another program's 63-bit token.
const (
	LookStamp       Look = "stamp"       // a plausible time in Unit
	LookImplausible Look = "implausible" // a number, but no plausible time in any unit
	LookTombstone   Look = "tombstone"   // the one number that guards never use
	LookGuardLike   Look = "guard-like"  // 19 digits from 4·10^18 on: a guard or a 63-bit token
	LookDecimal     Look = "decimal"     // a number that SetPexpire's clients may have drawn
	LookUUID        Look = "uuid"        // a uuid alone
	LookToken       Look = "token"       // text of a token's form: letters and digits, 8 to 64
	LookConstant    Look = "constant"    // a short text such as "lock", "1", "true"
	LookForever     Look = "forever"     // value of redis-py's lock without timeout
	LookEmpty       Look = "empty"
	LookText        Look = "text"   // any other text
	LookBinary      Look = "binary" // not UTF-8, or control characters
)

// Match is one thing that a value may be.
type Match struct {
	Look     Look
	Unit     Unit      // unit of a stamp; UnitNone otherwise
	Encoding Encoding  // encoding that the bytes are in
	Dialects []string  // presets that write this form in this unit, sorted, the preferred one first
	Expiry   time.Time // expiry of a stamp in UTC, slack included; zero otherwise
}

// String describes the match in words.
func (m Match) String() string {
	text := m.words()
	if m.Encoding != Plain {
		text += " in the " + string(m.Encoding) + " encoding"
	}
	return text
}

func (m Match) words() string {
	switch m.Look {
	case LookStamp:
		text := fmt.Sprintf("a stamp in %s for %s", m.Unit, m.Expiry.Format("2006-01-02T15:04:05.000Z"))
		if len(m.Dialects) > 0 {
			text += " (" + strings.Join(m.Dialects, ", ") + ")"
		}
		return text
	case LookGuardLike:
		return "a guard or another program's 63-bit token"
	case LookImplausible:
		return "a number that is no plausible time"
	case LookDecimal:
		return "a decimal token"
	case LookForever:
		return "a redis-py lock without expiry"
	case LookEmpty:
		return "empty"
	case LookUUID, LookToken, LookTombstone, LookConstant:
		return "a " + string(m.Look)
	}
	return string(m.Look)
}

// Hints change the order of Identify's matches; they never remove one.
type Hints struct {
	Prefer string // a dialect's name, whose form comes first where it fits
}

// Identify lists what a value may be, likeliest first; the list is never empty.
// Stamps come before the rest, ordered by their distance from serverNow. Two
// stamps with different units mean that the value is ambiguous, see
// [Ambiguous].
func Identify(value string, serverNow time.Time, hints Hints) []Match {
	text, encoding := unwrap(value)
	matches := stampMatches(text, serverNow)
	matches = append(matches, otherMatches(text, len(matches) > 0)...)
	for i := range matches {
		matches[i].Encoding = encoding
		preferFirst(matches[i].Dialects, hints.Prefer)
	}
	slices.SortStableFunc(matches, func(a, b Match) int {
		return rank(a, hints.Prefer) - rank(b, hints.Prefer)
	})
	return matches
}

// Ambiguous reports whether a value is a plausible time in two units that
// disagree about the instant. Whole and float seconds agree, since older float
// clients wrote whole numbers too.
func Ambiguous(matches []Match) bool {
	var first time.Time
	for _, m := range matches {
		if m.Look != LookStamp {
			continue
		}
		if !first.IsZero() && !m.Expiry.Equal(first) {
			return true
		}
		first = m.Expiry
	}
	return false
}

// A decimal has a fixed length in each unit: 10 digits for seconds, 13 for
// milliseconds, 18 for ticks, 19 for nanoseconds. The plausible window is
// eleven years wide. So one number fits two units only where the server's clock
// is near 1970, or as whole and float seconds.

// unwrap tries the encodings, the most distinctive first.
func unwrap(value string) (string, Encoding) {
	for _, e := range []Encoding{JDK, JSON} {
		if text, err := decodeText(e, value); err == nil {
			return text, e
		}
	}
	return value, Plain
}

// stampForm is a text shape in a unit, and the presets that write it.
type stampForm struct {
	shape    Shape
	unit     Unit
	dialects []string
}

var stampForms = collectForms()

func collectForms() []stampForm {
	var forms []stampForm
	index := map[[2]string]int{}
	for _, d := range append(Presets(), Dialect{Shape: ShapeNumber, Unit: UnitTicks}) {
		if !d.HasStamp() {
			continue
		}
		key := [2]string{string(d.Shape), string(d.Unit)}
		at, ok := index[key]
		if !ok {
			at = len(forms)
			index[key] = at
			forms = append(forms, stampForm{shape: d.Shape, unit: d.Unit})
		}
		if d.Name != "" {
			forms[at].dialects = append(forms[at].dialects, d.Name)
		}
	}
	return forms
}

func stampMatches(text string, serverNow time.Time) []Match {
	var matches []Match
	for _, form := range stampForms {
		number := text
		if form.shape == ShapeUUIDNumber {
			id, rest, _ := strings.Cut(text, ":")
			if !isUUID(id) {
				continue
			}
			number = rest
		}
		expiry, err := parseStrict(form.unit, number)
		if err != nil || !plausible(expiry, serverNow) || number == foreverPython {
			continue
		}
		matches = append(matches, Match{
			Look: LookStamp, Unit: form.unit, Expiry: expiry, Dialects: slices.Clone(form.dialects),
		})
	}
	slices.SortStableFunc(matches, func(a, b Match) int {
		return int(a.Expiry.Sub(serverNow).Abs().Round(time.Second)/time.Second) -
			int(b.Expiry.Sub(serverNow).Abs().Round(time.Second)/time.Second)
	})
	return matches
}

func otherMatches(text string, stamp bool) []Match {
	one := func(l Look, dialects ...string) Match {
		return Match{Look: l, Unit: UnitNone, Dialects: dialects}
	}
	id, number, colon := strings.Cut(text, ":")
	switch {
	case text == "":
		return []Match{one(LookEmpty)}
	case !utf8.ValidString(text) || strings.IndexFunc(text, func(r rune) bool { return r < ' ' }) >= 0:
		return []Match{one(LookBinary)}
	case text == Tombstone63 || text == zeroUUID+":"+Tombstone63 || text == tombstoneTicks:
		return []Match{one(LookTombstone)}
	case text == foreverPython:
		return []Match{one(LookForever, "RedisPy", "TaskTiger")}
	case guardLike(text):
		return []Match{one(LookGuardLike, "SetPexpire")}
	case colon && isUUID(id) && guardLike(number):
		return []Match{one(LookGuardLike)}
	}
	if isDecimal63(text) {
		return decimalMatches(text, stamp, one)
	}
	return textMatches(text, stamp, one)
}

// decimalMatches keeps the token as a match next to a stamp. A random 63-bit
// number rarely has 10, 13 or 18 digits, but other programs' counters do.
func decimalMatches(text string, stamp bool, one func(Look, ...string) Match) []Match {
	matches := []Match{one(LookDecimal, "SetPexpire")}
	if len(text) <= 2 {
		matches = append([]Match{one(LookConstant, "Bare", "BareExpire", "SetDel")}, matches...)
	}
	if !stamp {
		matches = append(matches, one(LookImplausible))
	}
	return matches
}

func textMatches(text string, stamp bool, one func(Look, ...string) Match) []Match {
	word := strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}) < 0
	switch {
	case stamp:
		return nil
	case strings.Trim(text, "0123456789.") == "":
		return []Match{one(LookImplausible)}
	case isUUID(strings.ToLower(text)):
		return []Match{one(LookUUID, "SetGetDel")}
	case word && len(text) <= 16:
		return []Match{one(LookConstant, "Bare", "BareExpire", "SetDel"), one(LookToken, "SetGetDel")}
	case word && len(text) <= 64:
		return []Match{one(LookToken, "SetGetDel")}
	}
	return []Match{one(LookText)}
}

func preferFirst(names []string, prefer string) {
	for i, name := range names {
		if name == prefer {
			copy(names[1:i+1], names[:i])
			names[0] = name
			return
		}
	}
}

// rank puts the preferred dialect's form first and stamps before the rest.
// Equal ranks keep their order.
func rank(m Match, prefer string) int {
	switch {
	case len(m.Dialects) > 0 && m.Dialects[0] == prefer:
		return 0
	case m.Look == LookStamp:
		return 1
	}
	return 2
}
