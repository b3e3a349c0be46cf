package main

import (
	"bytes"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// generated is the line that marks a generated file, as the go command defines
// it.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// reflow returns the text of a Go file with its comments wrapped. It returns an
// error if the text is not Go.
func reflow(text []byte) ([]byte, error) {
	files := token.NewFileSet()
	if _, err := parser.ParseFile(files, "", text, parser.ParseComments); err != nil {
		return nil, err
	}
	if generated.Match(text) || bytes.Contains(text, []byte("\r")) {
		return text, nil
	}
	lines := strings.SplitAfter(string(text), "\n")
	own := ownComments(text, lines)
	var out strings.Builder
	for i := 0; i < len(lines); {
		indent, ok := own[i]
		if !ok {
			out.WriteString(lines[i])
			i++
			continue
		}
		var block []string
		for ; i < len(lines); i++ {
			if next, ok := own[i]; !ok || next != indent {
				break
			}
			block = append(block, strings.TrimRight(lines[i][len(indent)+2:], " \t\n"))
		}
		for _, l := range wrapBlock(block, limit-columns(indent)-len("//")) {
			out.WriteString(indent + "//" + l + "\n")
		}
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		return bytes.TrimSuffix([]byte(out.String()), []byte("\n")), nil
	}
	return []byte(out.String()), nil
}

// ownComments returns the numbers, from 0, of the lines that hold a // comment
// and nothing else, each with its indentation. It leaves out lines that are
// indented by blanks: gofmt aligns those with a comment after code.
func ownComments(text []byte, lines []string) map[int]string {
	own := map[int]string{}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		at, kind, lit := s.Scan()
		if kind == token.EOF {
			return own
		}
		if kind != token.COMMENT || !strings.HasPrefix(lit, "//") {
			continue
		}
		// PositionFor ignores //line directives.
		p := files.PositionFor(at, false)
		if indent := lines[p.Line-1][:p.Column-1]; strings.Trim(indent, "\t") == "" {
			own[p.Line-1] = indent
		}
	}
}
