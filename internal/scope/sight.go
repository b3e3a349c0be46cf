package scope

import (
	"strings"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// sightWord begins what a watcher's marker adds to a name.
const sightWord = "gsl-sight:"

// nonceLength is the length of the nonces that crypto/rand.Text draws.
const nonceLength = 26

// Sight returns the name of a marker: a key that the scope covers and that never
// exists. A watcher reads it and waits until MONITOR shows the read. Then the
// filter sees this database and these names, up to the read. ok is false where
// the scope covers no name but those it was given, or where it covers none of
// that form.
func (s Scope) Sight(nonce string) (name string, ok bool) {
	if s.sight == nil {
		return "", false
	}
	name = s.sight(sightWord + nonce)
	return name, s.every || s.names(name)
}

// Sighted returns the nonce of a marker and the spelling of its key. ok is false
// for every other key.
func Sighted(key string) (nonce string, spelling dialect.Encoding, ok bool) {
	if !strings.Contains(key, sightWord) {
		return "", spelling, false
	}
	for _, spelling := range []dialect.Encoding{dialect.JDK, dialect.JSON, dialect.Plain} {
		name, ok := decoded(key, spelling)
		if !ok {
			continue
		}
		_, rest, _ := strings.Cut(name, sightWord)
		if len(rest) < nonceLength || strings.Trim(rest[:nonceLength], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			return "", spelling, false
		}
		return rest[:nonceLength], spelling, true
	}
	return "", spelling, false
}

// Anonymous returns a marker's key without the name of what is watched, in the
// same spelling; other keys are returned as they are.
func Anonymous(key string) string {
	nonce, spelling, ok := Sighted(key)
	if !ok {
		return key
	}
	bare, err := (dialect.Dialect{KeyEncoding: spelling}).EncodeKey(sightWord + nonce)
	if err != nil {
		return sightWord + nonce
	}
	return bare
}

// matching is a name that a pattern of SCAN matches, with a text in the place of
// its first star. A pattern without a star has none.
func matching(pattern string) func(text string) string {
	star := starIn(pattern)
	if star < 0 {
		return nil
	}
	before, after := sample(pattern[:star]), sample(pattern[star+1:])
	return func(text string) string { return before + text + after }
}

// starIn is the place of the first star that stands for any text, -1 for none.
func starIn(pattern string) int {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			if end := strings.IndexByte(pattern[i:], ']'); end > 0 {
				i += end
			}
		case '*':
			return i
		}
	}
	return -1
}

// sample is a text that a pattern matches, as short as can be.
func sample(pattern string) string {
	var b strings.Builder
	for p := 0; p < len(pattern); {
		if pattern[p] == '*' {
			p++
			continue
		}
		next := p + 1
		for c := 0; c < 256; c++ {
			// Letters first: a control character is a nuisance to people.
			tried := byte(c + 'a')
			if after, ok := one(pattern, p, tried); ok {
				b.WriteByte(tried)
				next = after
				break
			}
		}
		p = next
	}
	return b.String()
}
