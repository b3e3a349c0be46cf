// SPDX-License-Identifier: Apache-2.0

// Package scope answers one question for everything that watches, counts or
// lists locks: does this key, in this database, belong to the scope? Lines of
// MONITOR, looks, slices of SCAN and keys of a migration are all judged by
// [Scope.Covers], so all parts of the project see the same keys.
//
// It does not say whether a key is a lock. That depends on the value, which
// package scope never sees.
//
// # Spellings
//
// A client may pass its keys through a serializer before it sends them.
// Spring's JDK serializer writes the key lock as ac ed 00 05 74 00 04 6c 6f 63
// 6b: four bytes of magic and version, the letter t, two bytes of length, the
// text. Its JSON serializers write "lock" with the quotes. Neither spelling
// begins like the name, so a key is decoded before its name is compared.
package scope

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Scope says which keys of which database are meant. [Matching] or [Namespace]
// makes it. It never changes, so any number of goroutines may use it. The zero
// value covers nothing.
type Scope struct {
	database  int
	names     func(name string) bool
	spellings []dialect.Encoding
	every     bool // every key of the database, in any spelling
	pattern   string
	sight     func(word string) string // returns a covered name that contains the word; nil: none is covered
}

// Matching covers the keys whose names match a pattern as SCAN takes it, in
// every spelling: a watch without one of the spellings would not see the
// clients that use it. An empty pattern matches every key.
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

// Namespace covers the keys whose names begin with a text, in one spelling. On
// these keys a client of that dialect and a getsetlock client meet; a name in
// another spelling is another lock.
func Namespace(begin string, spelling dialect.Encoding) Scope {
	s := Scope{spellings: []dialect.Encoding{spelling}}
	s.every = begin == "" && spelling != dialect.JDK && spelling != dialect.JSON
	s.names = func(name string) bool { return Within(begin, name) }
	s.pattern = widened(Literal(begin) + "*")
	s.sight = func(word string) string { return begin + word }
	return s
}

// Within reports whether a name begins with a namespace, which then owns it.
func Within(namespace, name string) bool { return strings.HasPrefix(name, namespace) }

// In returns the same scope in another database. A new scope is in database 0.
func (s Scope) In(database int) Scope {
	s.database = database
	return s
}

// Database returns the number of the one database whose keys are covered.
func (s Scope) Database() int { return s.database }

// Every reports whether every key of the database is covered.
func (s Scope) Every() bool { return s.every }

// Covers reports whether a key belongs to the scope. key is given in the bytes
// that the server has; database is the number that a line of MONITOR shows, or
// the one that the caller's connection uses. A key M belongs to the scope of
// its L.
func (s Scope) Covers(database int, key string) bool {
	if database != s.database {
		return false
	}
	if s.every {
		return true
	}
	return s.spells(key) || slices.ContainsFunc(OldKeys(key), s.spells)
}

// spells reports whether key is one of the spellings of a covered name.
func (s Scope) spells(key string) bool {
	for _, spelling := range s.spellings {
		if name, ok := decoded(key, spelling); ok && s.names(name) {
			return true
		}
	}
	return false
}

// decoded returns the name that a key spells. The first byte excludes most
// keys; without that check, decoding would be most of the work of a filter of
// MONITOR.
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

// Pattern returns a pattern for SCAN. Every covered key that a dialect can
// write matches it, and other keys may match too: call Covers for each key that
// comes back. One pass over the keyspace finds all spellings.
func (s Scope) Pattern() string { return s.pattern }

// MarkSuffix ends the name of every key M.
const MarkSuffix = ":gsl"

// LookSuffix ends the name of every hash in which getsetlock remembers looks at
// the L of a key M; the rest is the name of M.
const LookSuffix = ":look"

// IsLook reports whether the name is that of such a hash.
func IsLook(name string) bool {
	mark, ok := strings.CutSuffix(name, LookSuffix)
	return ok && len(OldKeys(mark)) > 0
}

// Mark returns the key M of an old key L; see legacy.MarkKey, which promises
// it.
func Mark(l string) string {
	if HasTag(l) {
		return l + MarkSuffix
	}
	return "{" + l + "}" + MarkSuffix
}

// HasTag reports whether the server hashes only a part of the key to find its
// slot: the text between the first "{" and the next "}", unless that is empty.
func HasTag(key string) bool {
	open := strings.IndexByte(key, '{')
	return open >= 0 && strings.IndexByte(key[open+1:], '}') > 0
}

// IsToken reports whether a text has the form of a getsetlock token: 128 bits
// in base64url. The last character has four spare bits, which must be zero. One
// in sixteen other texts of that length and alphabet has this form too.
func IsToken(text string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// the decoder skips line breaks; the length excludes them
	return err == nil && len(raw) == 16 && len(text) == 22
}

// OldKeys returns the old keys L to which a key M may belong, or none if mark
// is not named like an M. "{stock}:gsl" may belong to "stock" as well as to
// "{stock}".
func OldKeys(mark string) []string {
	base, ours := strings.CutSuffix(mark, MarkSuffix)
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
