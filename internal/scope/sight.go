// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// sightWord is the text that a watch's marker contains.
const sightWord = "gsl-sight:"

// nonceLength is the length of the texts that crypto/rand.Text returns.
const nonceLength = 26

// Sight returns the name of a marker: a key that the scope covers and that
// never exists. A watch reads it and waits until MONITOR shows the read. That
// proves that MONITOR shows commands on these names in this database, up to the
// read. ok is false if the scope covers only keys added by With, or no name of
// a marker's form.
func (s Scope) Sight(nonce string) (name string, ok bool) {
	if s.sight == nil {
		return "", false
	}
	name = s.sight(sightWord + nonce)
	return name, s.every || s.names(name)
}

// Sighted returns the nonce of a marker and the spelling of its key. ok is
// false for every other key.
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
		if len(rest) < nonceLength ||
			strings.Trim(rest[:nonceLength], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			return "", spelling, false
		}
		return rest[:nonceLength], spelling, true
	}
	return "", spelling, false
}

// matching returns a function that makes names which match a pattern of SCAN,
// with the given text in place of the first star. It returns nil for a pattern
// without a star.
func matching(pattern string) func(text string) string {
	star := starIn(pattern)
	if star < 0 {
		return nil
	}
	before, after := sample(pattern[:star]), sample(pattern[star+1:])
	return func(text string) string { return before + text + after }
}

// starIn returns the position of the first star that stands for any text, or
// -1.
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

// sample returns a shortest text that the pattern matches.
func sample(pattern string) string {
	var b strings.Builder
	for p := 0; p < len(pattern); {
		if pattern[p] == '*' {
			p++
			continue
		}
		next := p + 1
		for c := 0; c < 256; c++ {
			// Try letters first: control characters are hard to read.
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
