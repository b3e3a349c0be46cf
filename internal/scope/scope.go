// Package scope answers one question for everything that watches, counts or
// lists locks: does this key, in this database, belong to what was asked about?
// Lines of MONITOR, looks, slices of SCAN and keys of a migration are all
// judged by [Scope.Covers], so that no two parts of the project see different
// keys.
//
// It does not say whether a key is a lock. That follows from its value, which
// package scope never sees.
//
// # Spellings
//
// A client may hand its keys to a serializer before it sends them. Spring's JDK
// serializer writes the key lock as ac ed 00 05 74 00 04 6c 6f 63 6b: four
// bytes of magic and version, the letter t, two bytes of length, the text. Its
// JSON serializers write "lock" with the quotes. Neither spelling begins as the
// name does, so a key is decoded before its name is compared.
package scope

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Scope says which keys of which database are meant. It is made by [Matching]
// or [Namespace] and never changes, so any number of goroutines may ask it. The
// zero value covers nothing.
type Scope struct {
	database  int
	names     func(name string) bool
	spellings []dialect.Encoding
	every     bool // every key of the database, however it is spelled
	given     map[string]bool
	carved    bool // keys of longer namespaces are left out, their marks too
	pattern   string
	sight     func(word string) string // a name with that word in it; nil: there is none
}

// Matching covers the keys whose names match a pattern as SCAN takes it, in
// every spelling: a watch that leaves a spelling out is blind to the clients
// that use it. An empty pattern matches every key.
func Matching(pattern string) Scope {
	s := Scope{spellings: []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}}
	s.every = strings.Trim(pattern, "*") == ""
	s.names = func(name string) bool { return matches(pattern, name) }
	s.pattern = widened(pattern)
	s.sight = matching(pattern)
	if pattern == "" {
		s.sight = matching("*")
	}
	return s
}

// Namespace covers the keys whose names begin with a text, in one spelling.
// They are the keys on which a client of that dialect and a getsetlock client
// meet; a name in another spelling is another lock.
func Namespace(begin string, spelling dialect.Encoding) Scope {
	s := Scope{spellings: []dialect.Encoding{spelling}}
	s.every = begin == "" && spelling != dialect.JDK && spelling != dialect.JSON
	s.names = func(name string) bool { return Within(begin, name) }
	s.pattern = widened(Literal(begin) + "*")
	s.sight = func(word string) string { return begin + word }
	return s
}

// Except returns the scope of a namespace without the keys of longer ones. A
// namespace that was carved out of another owns its keys alone.
func (s Scope) Except(longer ...string) Scope {
	if len(longer) == 0 {
		return s
	}
	owned := s.names
	s.names = func(name string) bool { return owned(name) && Carved(name, longer) == "" }
	s.every, s.carved = false, true
	return s
}

// Within reports that a name begins with a namespace. The namespace owns it
// then, unless it lies in one that was carved out of it; see [Carved].
func Within(namespace, name string) bool { return strings.HasPrefix(name, namespace) }

// Carved returns the longest of some namespaces with which a name begins, and
// the empty text where none does. A name is a namespace's own if and only if it
// begins with it and lies in none of those that were carved out of it.
func Carved(name string, longer []string) string {
	found := ""
	for _, namespace := range longer {
		if Within(namespace, name) && len(namespace) > len(found) {
			found = namespace
		}
	}
	return found
}

// In returns the same scope in another database. A scope is made in database 0.
func (s Scope) In(database int) Scope {
	s.database = database
	return s
}

// With returns a scope that covers these keys too, byte for byte as they are on
// the server.
func (s Scope) With(keys ...string) Scope {
	given := maps.Clone(s.given)
	if given == nil {
		given = make(map[string]bool, len(keys))
	}
	for _, key := range keys {
		given[key] = true
	}
	s.given = given
	return s
}

// Database is the number of the one database whose keys are covered.
func (s Scope) Database() int { return s.database }

// Every reports that each key of the database is covered.
func (s Scope) Every() bool { return s.every }

// Covers reports that a key belongs to what is meant. The key is in the bytes
// that the server has, the database is the number that a line of MONITOR shows,
// or the one that the caller's connection selects. A key of ours, M, belongs to
// the scope of the old key L that it accompanies.
func (s Scope) Covers(database int, key string) bool {
	if database != s.database {
		return false
	}
	if s.every {
		return true
	}
	old := OldKeys(key)
	own := s.spells(key) && !(s.carved && len(old) > 0) // the mark of a carved key lies in no longer namespace itself
	return own || slices.ContainsFunc(old, s.spells) || s.given[key]
}

// spells reports that one of the spellings of a name in question is key.
func (s Scope) spells(key string) bool {
	for _, spelling := range s.spellings {
		if name, ok := decoded(key, spelling); ok && s.names(name) {
			return true
		}
	}
	return false
}

// decoded is the name that a key spells. Most keys are told by their first
// byte: to decode each would be most of what a filter of MONITOR does.
func decoded(key string, spelling dialect.Encoding) (string, bool) {
	begin := ""
	switch spelling {
	case dialect.JDK:
		begin = "\xac\xed"
	case dialect.JSON:
		begin = `"`
	default:
		return key, true
	}
	if !strings.HasPrefix(key, begin) {
		return "", false
	}
	name, err := (dialect.Dialect{KeyEncoding: spelling}).DecodeKey(key)
	return name, err == nil
}

// Pattern is for SCAN: every covered key that a dialect can write matches it,
// and other keys may. The caller asks Covers about each key that comes back.
// One pass over the keyspace finds all spellings. Keys given by With are not
// looked for.
func (s Scope) Pattern() string { return s.pattern }

const markSuffix = ":gsl"

// Mark returns the key of getsetlock's own beside an old key; see
// legacy.MarkKey, which promises it.
func Mark(l string) string {
	if HasTag(l) {
		return l + markSuffix
	}
	return "{" + l + "}" + markSuffix
}

// HasTag reports that only a part of a key is hashed to find its slot: what is
// between the first "{" and the next "}", unless that is empty.
func HasTag(key string) bool {
	open := strings.IndexByte(key, '{')
	return open >= 0 && strings.IndexByte(key[open+1:], '}') > 0
}

// IsToken reports that a text has the form of a getsetlock token: 128 bits in
// base64url, whose last character has four bits to spare, all of them zero. Of
// other texts of that length and those letters one in sixteen has it too.
func IsToken(text string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(raw) == 16 && len(text) == 22 // line breaks, which the decoder skips, make it longer
}

// OldKeys returns the old keys L to which a getsetlock key M may belong, none
// if mark is not named like such a key. "{stock}:gsl" may belong to "stock" as
// well as to "{stock}".
func OldKeys(mark string) []string {
	base, ours := strings.CutSuffix(mark, markSuffix)
	if !ours {
		return nil
	}
	var found []string
	for _, l := range []string{base, strings.TrimSuffix(strings.TrimPrefix(base, "{"), "}")} {
		if l != "" && Mark(l) == mark && !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}
