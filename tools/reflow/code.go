package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

const (
	codeLimit = 110 // columns of a line of code, its indentation included
	// mostRounds bounds how often one line is broken. Each round leaves shorter
	// lines, so it only ends what a defect here would repeat.
	mostRounds = 60
	// mostSkipped is how many places of a line are tried that gofmt joins
	// again.
	mostSkipped = 12
)

// breakCode returns the text of a Go file with its wide lines of code broken.
// Tokens and their order stay. keep are lines that are left as they are. It
// returns an error if the text is not Go.
//
// A line is broken after a comma, an operator or an opening bracket, where that
// is least deep in brackets. A comment after the code goes above its line, or
// below it where that opens a block. A line with a string that has no room on a
// line of its own stays.
func breakCode(text []byte, keep map[string]bool) ([]byte, error) {
	if generated.Match(text) || bytes.Contains(text, []byte("\r")) {
		return text, nil
	}
	skip := 0
	for range mostRounds {
		next, tried, err := breakOnce(text, keep, skip)
		if err != nil || !tried {
			return text, err
		}
		if next, err = format.Source(next); err != nil {
			return nil, err
		}
		if !bytes.Equal(next, text) {
			text, skip = next, 0
			continue
		}
		// gofmt has joined what was broken, or nothing was: the next best
		// places.
		if skip++; skip > mostSkipped {
			break
		}
	}
	return text, nil
}

// breakOnce breaks each wide line once, at its best place after as many as are
// skipped. tried is false where no line was broken.
func breakOnce(text []byte, keep map[string]bool, skip int) (next []byte, tried bool, err error) {
	wide, err := measure(text)
	if err != nil {
		return text, false, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	var out strings.Builder
	for i, l := range lines {
		w := wide[i+1]
		l = strings.TrimSuffix(l, "\n")
		was, end := l, "\n"
		if i == len(lines)-1 {
			end = ""
		}
		after := ""
		if i > 0 {
			after = strings.TrimSpace(lines[i-1])
		}
		switch {
		case w == nil || keep[strings.TrimSpace(l)] || w.unbreakable(l):
		case w.comment > 0 && columns(strings.TrimRight(l[:w.comment], " \t")) <= codeLimit:
			l = moveComment(l, w.comment, after)
		case len(w.body) == 2 && (w.split || w.cheapest(l, 0) < 0):
			l = l[:w.body[0]] + "\n" + l[w.body[0]:w.body[1]] + "\n" + l[w.body[1]:]
		default:
			if at := w.cheapest(l, skip); at > 0 {
				l = l[:at] + "\n" + strings.TrimLeft(l[at:], " ")
			}
		}
		tried = tried || l != was
		out.WriteString(l + end)
	}
	return []byte(out.String()), tried, nil
}

// wideLine is what is known of a line that is too wide. Places are in bytes
// from the line's start.
type wideLine struct {
	places  []place
	body    []int // where a func's body begins and ends that lies on this line
	split   bool  // that is better than any other place
	comment int   // where a comment after the code begins, 0 without one
	longest int   // columns of the longest string
	inside  bool  // it is part of a raw string or a comment of several lines
}

// place is where a line may be broken. The least cost is the best.
type place struct{ at, cost int }

// unbreakable reports whether a line has a string that has no room on a line of
// its own, or is no code.
func (w *wideLine) unbreakable(l string) bool {
	trimmed := strings.TrimLeft(l, "\t")
	indent := len(l) - len(trimmed)
	return w.inside || strings.HasPrefix(trimmed, "//") || (indent+1)*tab+w.longest+len(",") > codeLimit
}

// cheapest returns the best place that lies within the limit, after as many as
// are skipped, and -1 where there is none.
func (w *wideLine) cheapest(l string, skip int) int {
	var all []place
	for _, p := range w.places {
		if rest := strings.TrimSpace(l[p.at:]); rest == "" || rest[0] == ')' || rest[0] == '}' {
			continue // gofmt would join empty brackets again
		}
		c := columns(strings.TrimRight(l[:p.at], " "))
		if c < codeLimit/3 {
			p.cost += 15 // a short first line is hard to read
		}
		if c <= codeLimit {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(a.cost-b.cost, b.at-a.at) })
	if skip >= len(all) {
		return -1
	}
	return all[skip].at
}

// moveComment puts the comment of a line above it, or below where the line
// opens a block. It stays where the line before, after, is a comment, too.
func moveComment(l string, at int, before string) string {
	code, comment := strings.TrimRight(l[:at], " \t"), l[at:]
	if !strings.HasPrefix(comment, "// ") || mark.MatchString(strings.Fields(comment)[0]) ||
		output.MatchString(comment[2:]) ||
		strings.HasPrefix(comment, "// doc:") || strings.HasPrefix(before, "//") {
		return l
	}
	if strings.HasSuffix(code, "{") || strings.HasSuffix(code, ":") {
		return code + "\n" + comment
	}
	return comment + "\n" + code
}

// measure finds the lines that are too wide, by their numbers from 1.
func measure(text []byte) (map[int]*wideLine, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, "", text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	file := files.File(tree.FileStart)
	wide := map[int]*wideLine{}
	for i, l := range strings.Split(string(text), "\n") {
		if columns(l) > codeLimit {
			wide[i+1] = &wideLine{}
		}
	}
	place := func(p token.Pos) (*wideLine, int) {
		at := file.PositionFor(p, false)
		return wide[at.Line], at.Column - 1
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		var b *ast.BlockStmt
		decl := false
		switch n := n.(type) {
		case *ast.FuncDecl:
			b, decl = n.Body, true
		case *ast.FuncLit:
			b = n.Body
		}
		if b != nil && len(b.List) > 0 && file.Line(b.Lbrace) == file.Line(b.Rbrace) {
			if w, at := place(b.Lbrace + 1); w != nil && w.body == nil {
				_, end := place(b.Rbrace)
				w.body, w.split = []int{at, end}, decl || len(b.List) > 1
			}
		}
		return true
	})
	places(text, place)
	return wide, nil
}

// after are the tokens after which a line may be broken, and what that costs
// beyond the depth. The last ones are for lines that have no better place.
var after = map[token.Token]int{
	token.COMMA: 0, token.LOR: 1, token.LAND: 2, token.ADD: 3, token.LBRACE: 9, token.LPAREN: 13,
	token.EQL: 22, token.NEQ: 22, token.GEQ: 22, token.LEQ: 22, token.LSS: 22, token.GTR: 22,
	token.PERIOD: 30, token.COLON: 31,
}

// places notes strings, comments and places to break on the lines that are too
// wide.
func places(text []byte, wide func(token.Pos) (*wideLine, int)) {
	// The file set of its own has the same positions, since both begin with the
	// file.
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	depth, line, base := 0, 0, 0
	for {
		p, kind, lit := s.Scan()
		if kind == token.EOF {
			return
		}
		if n := file.PositionFor(p, false).Line; n != line {
			line, base = n, depth
		}
		w, at := wide(p)
		switch kind {
		case token.RPAREN, token.RBRACE, token.RBRACK:
			if depth--; depth < base {
				base = depth
			}
		case token.ASSIGN, token.DEFINE:
			if w != nil && depth == base {
				for i := range w.places {
					w.places[i].cost += 100 // what is assigned to stays together
				}
				w.places = append(w.places, place{at + len(kind.String()), 60})
			}
		case token.STRING, token.COMMENT:
			note(wide, p, kind, lit)
		}
		if cost, ok := after[kind]; ok && w != nil {
			w.places = append(w.places, place{at + len(kind.String()), cost + 10*(depth-base)})
		}
		if slices.Contains([]token.Token{token.LPAREN, token.LBRACE, token.LBRACK}, kind) {
			depth++
		}
	}
}

// note notes a string or a comment.
func note(wide func(token.Pos) (*wideLine, int), p token.Pos, kind token.Token, lit string) {
	w, at := wide(p)
	if strings.Contains(lit, "\n") {
		for i, c := range lit {
			if c == '\n' {
				if w, _ := wide(p + token.Pos(i+1)); w != nil {
					w.inside = true
				}
			}
		}
		if w != nil {
			w.inside = true
		}
	}
	if w == nil {
		return
	}
	if kind == token.STRING {
		w.longest = max(w.longest, columns(lit))
	} else {
		w.comment = at
	}
}
