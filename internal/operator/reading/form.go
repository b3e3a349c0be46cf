// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// Form is the way in which a value is written: what its writers have in common.
type Form struct {
	Look     dialect.Look     `json:"look"`               // what the value looks like, as a word for scripts
	Unit     dialect.Unit     `json:"unit" answer:"null"` // of its time; null: it has none
	UUID     bool             // a uuid and a colon before the number
	Encoding dialect.Encoding `json:"encoding"` // plain, or the serializer's: jdk, json
}

// String describes the form in words.
func (f Form) String() string {
	text := string(f.Look)
	switch f.Look {
	case dialect.LookStamp:
		text = map[dialect.Unit]string{
			dialect.UnitMillis: "milliseconds", dialect.UnitSeconds: "whole seconds",
			dialect.UnitFloatSeconds: "seconds with a fraction",
			dialect.UnitNanos:        "nanoseconds", dialect.UnitTicks: ".NET ticks",
		}[f.Unit]
		if f.UUID {
			text = "uuid:" + text
		}
	case dialect.LookGuardLike:
		text = "guards of getsetlock clients, or 63-bit tokens"
	case dialect.LookImplausible:
		text = "numbers that are no time"
	case dialect.LookForever:
		text = "redis-py locks without an end"
	case dialect.LookEmpty:
		text = "empty values"
	case dialect.LookText, dialect.LookBinary:
		text = "unreadable " + text
	case dialect.LookDecimal:
		text = "decimal tokens"
	case dialect.LookUUID, dialect.LookToken, dialect.LookConstant, dialect.LookTombstone:
		text += "s"
	}
	if f.Encoding != "" && f.Encoding != dialect.Plain {
		text += " in the " + string(f.Encoding) + " encoding"
	}
	return text
}

// Lock reports whether some dialect writes such values, so that clients can
// meet at the key.
func (f Form) Lock() bool {
	switch f.Look {
	case dialect.LookStamp, dialect.LookForever, dialect.LookConstant, dialect.LookUUID, dialect.LookToken,
		dialect.LookDecimal:
		return true
	}
	return false
}

// Unreadable reports whether no dialect writes such values.
func (f Form) Unreadable() bool {
	switch f.Look {
	case dialect.LookImplausible, dialect.LookEmpty, dialect.LookText, dialect.LookBinary:
		return true
	}
	return false
}

// ReadForm returns the form of a value, the dialects that write it, the
// likeliest first, and the forms that it could have instead. now is the
// server's clock. own are dialects in addition to the presets; they come first,
// in their order.
func ReadForm(value string, now time.Time, own []dialect.Dialect) (form Form, dialects []string,
	also []Form) {
	if token, _, noted := strings.Cut(value, " "); noted && scope.IsToken(token) {
		value = token // a getsetlock token, on a token lock or on M: the text after it is a note for people
	}
	form, dialects, also = presetForm(value, now, own)
	for _, d := range slices.Backward(own) {
		mine, ok := formBy(d, value, now)
		if !ok {
			continue
		}
		if mine != form {
			also = append([]Form{form}, slices.DeleteFunc(also, func(f Form) bool { return f == mine })...)
			form, dialects = mine, nil
		}
		dialects = append([]string{d.Name},
			slices.DeleteFunc(dialects, func(n string) bool { return n == d.Name })...)
	}
	return form, dialects, also
}

// presetForm is ReadForm with the presets only; own decides which of several
// comes first.
func presetForm(value string, now time.Time, own []dialect.Dialect) (form Form, dialects []string,
	also []Form) {
	prefer := ""
	if len(own) > 0 {
		prefer = own[0].Name
	}
	matches := dialect.Identify(value, now, dialect.Hints{Prefer: prefer})
	form = formOf(matches[0])
	dialects = slices.Clone(matches[0].Dialects)
	if at := slices.Index(dialects, dialect.Jedis().Name); at > 0 && len(own) == 0 {
		// Several dialects write the same bytes; Jedis is by far the most
		// common.
		dialects = slices.Insert(slices.Delete(dialects, at, at+1), 0, dialect.Jedis().Name)
	}
	for _, m := range matches[1:] {
		also = append(also, formOf(m))
	}
	// A random 63-bit number rarely has so few digits: it is more likely a time
	// in an unknown unit.
	if form.Look == dialect.LookDecimal && len(value) < 18 && len(also) > 0 {
		return also[0], nil, []Form{form}
	}
	return form, dialects, also
}

// formBy returns the form in which d writes values, and true if d may have
// written this one. Nothing shows which dialect drew a random token.
func formBy(d dialect.Dialect, value string, now time.Time) (f Form, ok bool) {
	f.Encoding = cmp.Or(d.ValueEncoding, dialect.Plain)
	switch {
	case d.HasStamp():
		_, err := d.Decode(value, now)
		f.Look, f.Unit, f.UUID = dialect.LookStamp, d.Unit, d.Shape == dialect.ShapeUUIDNumber
		return f, err == nil
	case d.Shape == dialect.ShapeConstant:
		bytes, err := d.EncodeValue(d.Constant)
		f.Look, f.Unit = dialect.LookConstant, dialect.UnitNone
		return f, err == nil && bytes == value
	}
	return f, false
}

// uuidForms says of each preset whether a uuid comes before its stamp.
var uuidForms = func() map[string]bool {
	found := map[string]bool{}
	for _, d := range dialect.Presets() {
		found[d.Name] = d.Shape == dialect.ShapeUUIDNumber
	}
	return found
}()

func formOf(m dialect.Match) Form {
	f := Form{Look: m.Look, Unit: m.Unit, Encoding: m.Encoding}
	f.UUID = m.Look == dialect.LookStamp &&
		slices.ContainsFunc(m.Dialects, func(n string) bool { return uuidForms[n] })
	return f
}

// OwnerOf returns the identity in a value, or an empty string. A random
// identity should be on one key only.
func OwnerOf(value string, f Form) string {
	text := value
	if plain, err := (dialect.Dialect{ValueEncoding: Wrapping(value)}).DecodeValue(
		value); err == nil {
		text = plain
	}
	switch {
	case f.UUID:
		id, _, _ := strings.Cut(text, ":")
		return id
	case f.Look == dialect.LookUUID:
		return text
	case f.Look == dialect.LookToken && len(text) >= 16, f.Look == dialect.LookDecimal && len(text) >= 15:
		return text
	}
	return ""
}

// PrefixOf returns what the keys of one program have in common: the name up
// to its last separator. A key that a serializer of Spring encoded is judged by
// the name inside.
func PrefixOf(key string) string {
	name, _ := PlainKey(key)
	if name == "" || len(name) > longKey {
		name = name[:min(len(name), longKey)]
	}
	at := strings.LastIndexAny(name, ":/.|#")
	if at == len(name)-1 && at > 0 { // the key "a:b:" itself looks like a prefix
		at = strings.LastIndexAny(name[:at], ":/.|#")
	}
	return name[:at+1]
}

// longKey is how many bytes of a key's name are remembered.
const longKey = 256

// PlainKey returns the name inside a key that a serializer encoded, and the
// encoding.
func PlainKey(key string) (string, dialect.Encoding) {
	e := Wrapping(key)
	if name, err := (dialect.Dialect{KeyEncoding: e}).DecodeKey(key); err == nil {
		return name, e
	}
	return key, dialect.Plain
}

// TooFar reports whether a stamp is further ahead than a lease explains: two
// leases, or a day if the lease is unknown.
func TooFar(ahead, lease time.Duration) bool {
	if lease <= 0 {
		return ahead > 24*time.Hour
	}
	return ahead > 2*lease
}

// CutKey returns a key, cut to the length at which keys are remembered.
func CutKey(key string) string { return key[:min(len(key), longKey)] }
