// Package main checks the rules of the house that no common linter knows, on
// every Go file of a repository, and names each place that breaks one. It also
// counts the names that packages export, looks that no import leads through a
// wall, and checks how comments and pages read (prose.go).
//
// It reads syntax and no types: a clock read through an alias of package time,
// or a method called by a variable, escapes it. It keeps honest people honest.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// timed are the rooms where time is an argument, or comes from the Clock in
// clock.go.
var timed = []string{"lock", "legacy", "modern", "migrate", "audit", "skew"}

// clockReads are the functions of package time that ask the machine's clock or
// wait by it.
var clockReads = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick",
	"Sleep"}

// spoken are methods that the standard library asks for by name and whose
// meaning it documents.
var spoken = []string{"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "LogValue",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Len", "Less", "Swap"}

// mostBranches is how many ways may lead through a function that is no test:
// one, and one more for each if, for, case, && and ||.
const mostBranches = 15

// longest is how many lines a function may have, its first and last included.
const longest = 70

// check gives the places in one file that break a rule, as "file:line: what".
func check(name, text string) ([]string, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, tree: tree, lines: func(p token.Pos) int { return files.Position(p).Line }}
	f.calls()
	f.lengths()
	if !f.test() {
		f.branches()
	}
	if !f.test() && tree.Name.Name != "main" {
		f.documented()
	}
	return f.found, nil
}

type file struct {
	name  string
	tree  *ast.File
	lines func(token.Pos) int
	found []string
}

func (f *file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

// kit tells whether the file is of a kit of tests, which has watchdogs as tests
// have.
func (f *file) kit() bool { return strings.HasSuffix(path.Dir(f.name), "test") }

// bubbles tells whether the file's tests run in bubbles, where a sleep moves
// virtual time.
func (f *file) bubbles() bool {
	return slices.ContainsFunc(f.tree.Imports,
		func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
}

func (f *file) report(at token.Pos, format string, args ...any) {
	f.found = append(f.found, fmt.Sprintf("%s:%d: %s", f.name, f.lines(at), fmt.Sprintf(format, args...)))
}

// calls looks at every call of the form x.F.
func (f *file) calls() {
	room, _, _ := strings.Cut(f.name, "/")
	clockless := slices.Contains(timed, room) && !f.test() && !f.kit() && path.Base(f.name) != "clock.go"
	for _, r := range []struct {
		applies bool
		from    string // the package that is asked; any where empty
		names   []string
		says    string
	}{
		{clockless, "time", clockReads, "%s outside clock.go: ask the Clock"},
		{f.test() && !f.bubbles(), "time", []string{"Sleep"},
			"%s: a test that sleeps: await an event, or move virtual time in a bubble"},
		{f.test(), "", []string{"Skip", "Skipf", "SkipNow"},
			"%s: a test that skips: fail, and say what is missing"},
	} {
		if !r.applies {
			continue
		}
		f.eachCall(func(at token.Pos, from, name string) {
			if (r.from == "" || r.from == from) && slices.Contains(r.names, name) {
				f.report(at, r.says, from+"."+name)
			}
		})
	}
}

// eachCall visits every call of the form x.F, where x is one word, or empty
// where it is more than that.
func (f *file) eachCall(visit func(at token.Pos, x, name string)) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok {
			word := ""
			if x, ok := fun.X.(*ast.Ident); ok {
				word = x.Name
			}
			visit(call.Pos(), word, fun.Sel.Name)
		}
		return true
	})
}

// branches looks for functions that are easier to read as a table of rules or
// of states.
func (f *file) branches() {
	for _, d := range f.tree.Decls {
		fun, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ways := 1
		ast.Inspect(fun, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
				ways++
			case *ast.CaseClause:
				if n.List != nil {
					ways++
				}
			case *ast.CommClause:
				if n.Comm != nil {
					ways++
				}
			case *ast.BinaryExpr:
				if n.Op == token.LAND || n.Op == token.LOR {
					ways++
				}
			}
			return true
		})
		if ways > mostBranches {
			f.report(fun.Pos(), "%s has %d branches, more than %d: make it a table of rules or states",
				fun.Name.Name, ways, mostBranches)
		}
	}
}

func (f *file) lengths() {
	for _, d := range f.tree.Decls {
		if fun, ok := d.(*ast.FuncDecl); ok {
			if n := f.lines(fun.End()) - f.lines(fun.Pos()) + 1; n > longest {
				f.report(fun.Pos(), "%s has %d lines, more than %d", fun.Name.Name, n, longest)
			}
		}
	}
}

// documented looks for exported names without a comment. A group of constants
// or variables may share one; fields and methods of interfaces are left to
// their type's.
func (f *file) documented() {
	for _, d := range f.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() &&
				!(d.Recv != nil && slices.Contains(spoken, d.Name.Name)) && exportedReceiver(d) {
				f.report(d.Pos(), "%s has no comment", d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				f.spec(d, s)
			}
		}
	}
}

func (f *file) spec(d *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
			f.report(s.Pos(), "%s has no comment", s.Name.Name)
		}
	case *ast.ValueSpec:
		if d.Doc != nil || s.Doc != nil || s.Comment != nil {
			return
		}
		for _, n := range s.Names {
			if n.IsExported() {
				f.report(n.Pos(), "%s has no comment", n.Name)
			}
		}
	}
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func hasPackageComment(text string) bool {
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments|parser.PackageClauseOnly)
	return err == nil && tree.Doc != nil &&
		(strings.HasPrefix(tree.Doc.Text(), "Package ") || strings.HasPrefix(tree.Doc.Text(), "Command "))
}
