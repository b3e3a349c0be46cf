// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// commentWidth is how many columns a line may have that is only a comment. The
// bound of code is in .golangci.yml.
const commentWidth = 80

// columns counts four for a tab.
func columns(s string) int { return utf8.RuneCountInString(s) + 3*strings.Count(s, "\t") }

// wideComments finds lines of // comments that are too wide and can be broken.
// Directives, code and drawings (indented by a tab), columns, what an example
// prints, and a word that is too long by itself are left alone.
func wideComments(file, text string) []place {
	if filepath.Ext(file) != ".go" {
		return nil
	}
	var found []place
	lines := strings.Split(text, "\n")
	printed := -1 // the last line that belongs to an example's output
	eachComment(text, func(line int, lit string) {
		l := lines[line-1]
		body := strings.TrimPrefix(lit, "//")
		switch {
		case outputLine.MatchString(body), printed == line-1 && strings.HasPrefix(lit, "//"):
			printed = line
		case strings.TrimLeft(l, "\t") != lit || columns(l) <= commentWidth:
		case !strings.HasPrefix(body, " ") || columnsIn.MatchString(strings.TrimSpace(body)):
		case len(strings.Fields(listItem.ReplaceAllString(body, " "))) > 1:
			found = append(found, place{
				line: line, says: fmt.Sprintf("a comment of %d columns, more than %d", columns(l),
					commentWidth)})
		}
	})
	return found
}

var (
	outputLine = regexp.MustCompile(`(?i)^ ?(unordered )?output:`)
	columnsIn  = regexp.MustCompile(`  |\t|^\|`)
	listItem   = regexp.MustCompile(`^ +([-*+]|\d+[.)]) `)
)
