// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// avoided are words and phrases that a stranger does not understand at first
// reading, or that name no actor, and what to write instead. The first group of
// a pattern is the word as plain.txt has it, where that differs from what was
// found.
var avoided = []struct {
	word    string
	pattern string
	instead string
}{
	{"hangs on", `(?:hangs?|hanging|hung) on`, "depends on"},
	{"stands on", `(?:stands?|standing|stood) on`, "is stored on, is on"},
	{"is told", `(?:is|are|was|were|be|been|being) told(?: (?:to|apart|from)\b)?`,
		"name who reports what: the client gets, the server reports"},
	{"tells of", `(?:tells?|told|telling) of`, "report"},
	{"gives on", `(?:gives?|gave|given|giving) on`, "hand over"},
	{"had by", `had by`, "held by"},
	{"be had", `be had`, "get, find out; \"cannot be had\": unknown"},
	{"ours", `ours`, "the getsetlock client's"},
	{"theirs", `theirs`, "the old client's"},
	{"somebody", `somebody(?:'s|’s)?`, "name the actor: another client, the holder"},
	{"whoever", `whoever`, "name the actor: the caller, the client that"},
	{"whom", `whom`, "name the actor"},
	{"he", `(?:he|him|his|himself)`, "it; a person is they"},
	{"beside", `beside`, "alongside, next to, besides"},
	{"for want of", `for want of`, "without, because there is no"},
	{"clocks apart", `clocks apart`, "clock spread"},
}

// avoidedPattern finds any of them, each in a group of its own.
var avoidedPattern = func() *regexp.Regexp {
	var all []string
	for _, a := range avoided {
		all = append(all, "("+a.pattern+")")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
}()

// avoidedWords finds the avoided words in a file's prose: comments, and the
// text of pages. Code and quotations in it are left out, and names at the start
// of a Go comment.
func avoidedWords(file, text string) []place {
	var found []place
	names := map[string]bool{}
	if filepath.Ext(file) == ".go" {
		names = identifiers(text)
	}
	for _, p := range prose(file, text) {
		for _, m := range avoidedPattern.FindAllStringSubmatchIndex(p.says, -1) {
			word := p.says[m[0]:m[1]]
			if named := names[word] && strings.TrimSpace(p.says[:m[0]]) == ""; named ||
				meant.MatchString(word) {
				continue
			}
			for i, a := range avoided {
				if m[2*i+2] >= 0 {
					found = append(found, place{p.line, "\"" + word + "\": say " + a.instead, a.word})
				}
			}
		}
	}
	return found
}

// meant are phrases that are plain although a pattern of avoided finds them.
var meant = regexp.MustCompile(`(?i) told (?:to|apart|from)$`)

// identifiers are the names in the code of a Go file.
func identifiers(text string) map[string]bool {
	names := map[string]bool{}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), []byte(text), nil, 0)
	for {
		_, kind, lit := s.Scan()
		if kind == token.EOF {
			return names
		}
		if kind == token.IDENT {
			names[lit] = true
		}
	}
}

// prose returns the lines of a file that are prose, with what is quoted in them
// taken out. The comments of Lua scripts are not among them: they are sent
// to the server, and a changed comment would change the script.
func prose(file, text string) []place {
	var lines []place
	switch filepath.Ext(file) {
	case ".go":
		lines = goComments(text)
	case ".md":
		lines = pageText(text)
	case ".java":
		lines = lineComments(text, javaComment)
	case ".sh":
		lines = lineComments(text, shellComment)
	}
	for i := range lines {
		lines[i].says = quoted.ReplaceAllString(lines[i].says, "…")
	}
	return lines
}

var (
	quoted       = regexp.MustCompile("`[^`]*`" + `|"[^"]*"|“[^”]*”|\]\([^)]*\)|<!--.*?-->`)
	javaComment  = regexp.MustCompile(`^\s*(?://|/?\*+)(.*)`)
	shellComment = regexp.MustCompile(`^\s*#(.*)`)
)

func lineComments(text string, comment *regexp.Regexp) []place {
	var out []place
	for i, l := range strings.Split(text, "\n") {
		if m := comment.FindStringSubmatch(l); m != nil {
			out = append(out, place{line: i + 1, says: m[1]})
		}
	}
	return out
}

// goComments are the lines of a Go file's comments, without directives and
// indented code.
func goComments(text string) []place {
	var out []place
	eachComment(text, func(line int, lit string) {
		for i, l := range strings.Split(lit, "\n") {
			l = strings.TrimPrefix(strings.TrimPrefix(l, "//"), "/*")
			if strings.HasPrefix(l, " ") {
				out = append(out, place{line: line + i, says: l})
			}
		}
	})
	return out
}

// eachComment visits the comments of a Go file.
func eachComment(text string, visit func(line int, lit string)) {
	files := token.NewFileSet()
	f := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(f, []byte(text), nil, scanner.ScanComments)
	for {
		at, kind, lit := s.Scan()
		if kind == token.EOF {
			return
		}
		if kind == token.COMMENT {
			visit(files.PositionFor(at, false).Line, lit)
		}
	}
}

// pageText are the lines of a Markdown page, without its blocks of code.
func pageText(text string) []place {
	var out []place
	fenced, blank, block := false, true, false
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced, blank = !fenced, false
			continue
		}
		indented := strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t")
		block = indented && (blank || block)
		blank = strings.TrimSpace(l) == ""
		if !fenced && !block && !blank {
			out = append(out, place{line: i + 1, says: l})
		}
	}
	return out
}

// longestName is how many characters the name of a test may have, after Test,
// Fuzz or Benchmark.
const longestName = 50

var testName = regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark)(\w+)\(\w+ \*testing\.[TFB]\)`)

// longNames finds tests with too long a name. The names of examples are made of
// what they show.
func longNames(file, text string) []place {
	var found []place
	if !strings.HasSuffix(file, "_test.go") {
		return nil
	}
	if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly); err != nil {
		return nil
	}
	for _, m := range testName.FindAllStringSubmatchIndex(text, -1) {
		if name := text[m[2]:m[3]]; len(name) > longestName {
			line := 1 + strings.Count(text[:m[0]], "\n")
			found = append(found, place{
				line: line, says: name +
					": a name of more than 50 characters: subject, verb, condition; the rest is a comment"})
		}
	}
	return found
}
