// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"strconv"
	"strings"
)

// keyOrPattern reads a KEY or PATTERN of a command line, which is written like
// the names that ls prints: \xNN is a byte, and two backslashes are one. For a
// pattern it returns what SCAN takes, else the key's bytes.
//
// A byte written as \xNN never has the meaning of a pattern, and neither has a
// * ? or [ with a backslash in front. Any other backslash stands for itself.
func keyOrPattern(arg string) (text string, isPattern bool) {
	var key, pattern strings.Builder
	literal := func(c byte) {
		key.WriteByte(c)
		if strings.IndexByte(`*?[]\^-`, c) >= 0 {
			pattern.WriteByte('\\')
		}
		pattern.WriteByte(c)
	}
	for i := 0; i < len(arg); i++ {
		rest := arg[i:]
		switch {
		case strings.IndexByte("*?[", arg[i]) >= 0:
			isPattern = true
			pattern.WriteByte(arg[i])
		case len(rest) >= 2 && rest[0] == '\\' && strings.IndexByte(`*?[]\`, rest[1]) >= 0:
			literal(rest[1])
			i++
		case len(rest) >= 4 && rest[:2] == `\x`:
			n, err := strconv.ParseUint(rest[2:4], 16, 8)
			if err != nil {
				literal('\\')
				continue
			}
			literal(byte(n))
			i += 3
		case arg[i] == '\\':
			literal('\\')
		default:
			key.WriteByte(arg[i])
			pattern.WriteByte(arg[i]) // ] ^ and - keep their meaning inside of brackets
		}
	}
	if isPattern {
		return pattern.String(), true
	}
	return key.String(), false
}
