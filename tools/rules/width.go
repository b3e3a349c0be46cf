package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	commentWidth = 80  // columns of a line that is only a comment
	codeWidth    = 110 // columns of any other line
	tabWidth     = 4   // columns of a tab

	// besideText is how many columns a line may have besides one long string.
	// Breaking such a line would part the string from its name.
	besideText = 50
)

func columns(s string) int {
	return utf8.RuneCountInString(s) + strings.Count(s, "\t")*(tabWidth-1)
}

// wideComments finds lines of // comments that are too wide and can be broken.
// Directives, code and drawings (indented by a tab), columns, what an example
// prints, and a word that is too long by itself are left alone.
func wideComments(file, text string) []place {
	if filepath.Ext(file) != ".go" {
		return nil
	}
	var found []place
	lines := strings.Split(text, "\n")
	printed := 0 // the last line that belongs to an example's output
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

// wideCode finds lines of code that are too wide, but those in raw strings, and
// those with a string literal that has no room on a line of its own, or is
// nearly all of its line. A comment after code can go above it, so its width
// counts.
func wideCode(file, text string) []place {
	if filepath.Ext(file) != ".go" {
		return nil
	}
	var found []place
	whole, widest := literals([]byte(text))
	for i, l := range strings.Split(text, "\n") {
		n := i + 1
		if columns(l) <= codeWidth || whole[n] || strings.HasPrefix(strings.TrimLeft(l, "\t"), "//") {
			continue
		}
		indent := len(l) - len(strings.TrimLeft(l, "\t"))
		alone := (indent+1)*tabWidth+widest[n]+len(",") > codeWidth
		if !alone && columns(l)-widest[n] > besideText {
			found = append(found, place{
				line: n, says: fmt.Sprintf("code of %d columns, more than %d", columns(l), codeWidth)})
		}
	}
	return found
}

// literals finds the lines that lie in a literal or comment of several lines,
// and the width of the longest string literal on the others.
func literals(text []byte) (whole map[int]bool, widest map[int]int) {
	whole, widest = map[int]bool{}, map[int]int{}
	files := token.NewFileSet()
	f := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, scanner.ScanComments)
	for {
		at, kind, lit := s.Scan()
		if kind == token.EOF {
			return whole, widest
		}
		if kind != token.STRING && kind != token.COMMENT {
			continue
		}
		line := files.PositionFor(at, false).Line
		for i := range strings.Count(lit, "\n") {
			whole[line+i], whole[line+i+1] = true, true
		}
		if kind == token.STRING {
			widest[line] = max(widest[line], columns(lit))
		}
	}
}
