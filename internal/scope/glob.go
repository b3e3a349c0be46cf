// SPDX-License-Identifier: Apache-2.0

package scope

import "strings"

// matches reports whether the server's SCAN would find a key by a pattern: *,
// ?, [a-c], [^x] and a backslash before a literal character. Its time is at
// most proportional to the product of both lengths.
func matches(pattern, key string) bool {
	p, k := 0, 0
	star, back := -1, 0
	for k < len(key) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, k
			p++
			continue
		case p < len(pattern):
			if next, ok := one(pattern, p, key[k]); ok {
				p, k = next, k+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		back++
		p, k = star+1, back
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches one byte and returns where the pattern goes on.
func one(pattern string, p int, c byte) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return class(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// class matches one byte against a bracket and returns the position after it. A
// bracket that never ends takes the rest of the pattern, as on the server.
func class(pattern string, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	found := false
	for p < len(pattern) && pattern[p] != ']' {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			found = found || pattern[p] == c
			p++
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			found = found || low <= c && c <= high
			p += 3
		default:
			found = found || pattern[p] == c
			p++
		}
	}
	if p < len(pattern) {
		p++
	}
	return p, found != not
}

// Literal returns a pattern that matches a text and nothing else.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}

// widened returns a pattern that finds keys holding a matching name in any
// encoding, with anything around it. A serializer may write some characters
// differently, and "?" stands for one byte of the name, which may be several
// bytes of the key. If the pattern has such a part, only the text before it is
// searched for.
func widened(pattern string) string {
	text, whole := beginning(pattern)
	if whole {
		text = strings.Trim(pattern, "*")
	} else {
		text = Literal(text)
	}
	if text == "" {
		return "*"
	}
	return "*" + text + "*"
}

// beginning returns the text with which every matching name begins, as far as
// its bytes are the same in every encoding. whole means that the rest of the
// pattern is such text and stars, with nothing escaped.
func beginning(pattern string) (text string, whole bool) {
	whole = true
	var begin []byte
	at := 0
	for ; at < len(pattern); at++ {
		c := pattern[at]
		if c == '\\' && at+1 < len(pattern) {
			at++
			c, whole = pattern[at], false
		} else if strings.IndexByte(`*?[\`, c) >= 0 {
			break
		}
		if !sameInEverySpelling(c) {
			break
		}
		begin = append(begin, c)
	}
	for _, c := range []byte(pattern[min(at, len(pattern)):]) {
		whole = whole && sameInEverySpelling(c) && c != '?' && c != '['
	}
	return string(begin), whole
}

// sameInEverySpelling reports whether all serializers write that byte of a name
// unchanged. JSON escapes control characters, quotes and backslashes. Java
// writes NUL and characters of four UTF-8 bytes differently.
func sameInEverySpelling(c byte) bool { return c >= 0x20 && c < 0xf0 && c != '"' && c != '\\' }
