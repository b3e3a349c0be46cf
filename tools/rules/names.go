// SPDX-License-Identifier: Apache-2.0

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

// mostNames is how many exported names a public package may have: types,
// functions, constants, variables and methods, those in spoken and asked not
// counted. Fields, and methods of interfaces, are parts of their type.
const mostNames = 120

// exempt are the packages whose bound is another.
var exempt = map[string]int{
	"migrate": 50,
}

// mostNamesInAll bounds all public packages together. A name more needs a
// feature that asks for it.
const mostNamesInAll = 272

// mostNamesOfAdapters bounds the packages in adapters together, which count
// apart: a program reads those of its own framework.
const mostNamesOfAdapters = 42

// mostShown bounds the names of a package that go doc -short lists: all but
// methods. The author of a program reads those of package lock first. What only
// the author of a backend needs is in lock/backend.
var mostShown = map[string]int{"lock": 25}

// asked are the methods of the contract in lock/backend. Their meaning is
// documented there, as that of String and Error is by the standard library, so
// those of other packages are not counted.
var asked = []string{"Try", "Advise", "Fits", "Timeout", "Await", "Watch", "Unwatch", "ExtendAll", "Enter",
	"Pace", "Describe", "Contract"}

// spoken are methods that the standard library asks for by name and whose
// meaning it documents.
var spoken = []string{"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "LogValue",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Len", "Less", "Swap"}

// private are folders whose packages nobody imports from outside.
var private = []string{"internal", "cmd", "tools", "examples", "docs", "bench", "proof", "testdata"}

// count adds a file's exported names to those of its package.
func count(names map[string]int, name, text string) error {
	folder := path.Dir(name)
	if !public(folder) || strings.HasSuffix(name, "_test.go") {
		return nil
	}
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil || tree.Name.Name == "main" {
		return err
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && !known(folder, d) {
				names[folder]++
				if d.Recv != nil {
					names[methodsOf+folder]++
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				names[folder] += exported(s)
			}
		}
	}
	return nil
}

// methodsOf begins the key under which count adds a package's methods once
// more.
const methodsOf = "methods of "

// public tells whether users may import the package in a folder.
func public(folder string) bool {
	return folder != "." && !slices.ContainsFunc(strings.Split(folder, "/"),
		func(s string) bool { return slices.Contains(private, s) })
}

// known tells whether a method's name is documented elsewhere: by the standard
// library, or by package lock.
func known(folder string, d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	return slices.Contains(spoken, d.Name.Name) ||
		folder != "lock/backend" && slices.Contains(asked, d.Name.Name)
}

// exported is how many exported names one spec declares.
func exported(s ast.Spec) int {
	n := 0
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			n++
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() {
				n++
			}
		}
	}
	return n
}

// tooMany names the packages with more names than they may have.
func tooMany(names map[string]int) []string {
	var found []string
	all, adapters := 0, 0
	for folder, n := range names {
		if strings.HasPrefix(folder, methodsOf) {
			continue
		}
		if shown, most := n-names[methodsOf+folder], mostShown[folder]; most > 0 && shown > most {
			found = append(found, fmt.Sprintf(
				"%s: go doc lists %d names, more than %d: move what only a backend needs to lock/backend",
				folder, shown, most))
		}
		most, ok := exempt[folder]
		if !ok {
			most = mostNames
		}
		if strings.HasPrefix(folder, "adapters/") {
			adapters += n
		} else {
			all += n
		}
		if n > most {
			found = append(found, fmt.Sprintf(
				"%s: %d exported names, more than %d: unexport what no other package needs", folder, n, most))
		}
	}
	if all > mostNamesInAll {
		found = append(found, fmt.Sprintf("all public packages: %d exported names, more than %d", all,
			mostNamesInAll))
	}
	if adapters > mostNamesOfAdapters {
		found = append(found, fmt.Sprintf("all adapters: %d exported names, more than %d", adapters,
			mostNamesOfAdapters))
	}
	return found
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
