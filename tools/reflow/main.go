// Command reflow wraps the comments of Go files at 80 columns.
//
//	reflow [-l] [-w] [-code] [file or folder ...]
//
// Without a flag it prints each file as it would become. -l lists the files
// that it would change, -w writes them. Without arguments it walks the current
// folder. Folders named testdata or target and folders that begin with a dot
// are left out.
//
// # What is wrapped
//
// Only // comments that have a line of their own, and of those only paragraphs
// with a line of more than 80 columns. A tab counts as 4 columns, every other
// character as one. In such a paragraph all lines are filled anew; the words
// and their order stay. A line that ends long before its neighbours keeps its
// end.
//
// # What is kept
//
// Directives (//go:, //nolint, //line, // +build), everything from "// Output:"
// to the end of its comment, indented lines (code and drawings), lists that are
// not in the form of gofmt, headings, tables (a bar at the start, or columns),
// link definitions, and generated files. A word longer than a line stays whole.
// A
// TODO begins a paragraph of its own.
//
// Comments after code, /* */ comments, and files of other languages are never
// touched. The comments of Lua scripts are sent to the server, so a changed
// line end would change the script's SHA1.
//
// # Code
//
// With -code lines of code of more than 110 columns are broken as well: after a
// comma, an operator or an opening bracket, where that is least deep in
// brackets. The tokens and their order stay, and the result is as gofmt leaves
// it. A comment after such a line goes above it. A line stays whole if it has a
// string that has no room on a line of its own, or if a list in proof/mutants
// names it.
//
// It ends with 1 if -l lists a file, and with 3 if a file cannot be read,
// parsed or written.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	list := flag.Bool("l", false, "list the files that would change")
	write := flag.Bool("w", false, "write the files that change")
	code := flag.Bool("code", false, "break lines of code, too")
	flag.Parse()
	change := reflow
	if *code {
		change = both(mutated(os.DirFS("proof/mutants")))
	}
	changed, err := run(os.Stdout, flag.Args(), *list, *write, change)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reflow:", err)
		os.Exit(3)
	}
	if *list && changed && !*write {
		os.Exit(1)
	}
}

// both wraps comments and breaks code.
func both(keep map[string]bool) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		broken, err := breakCode(text, keep)
		if err != nil {
			return nil, err
		}
		return reflow(broken)
	}
}

// mutated are the lines of code that the lists of mutants in a folder name.
func mutated(lists fs.FS) map[string]bool {
	keep := map[string]bool{}
	files, _ := fs.Glob(lists, "*.txt") // the pattern is right
	for _, file := range files {
		text, err := fs.ReadFile(lists, file)
		if err != nil {
			continue
		}
		for _, l := range strings.Split(string(text), "\n") {
			if old, ok := strings.CutPrefix(l, "-"); ok {
				keep[strings.TrimSpace(old)] = true
			}
		}
	}
	return keep
}

// run changes files, and the Go files below folders. It returns whether any of
// them changed, and the errors of all that failed.
func run(
	out io.Writer, names []string, list, write bool, change func([]byte) ([]byte, error),
) (changed bool, err error) {
	if len(names) == 0 {
		names = []string{"."}
	}
	var failed []error
	for _, name := range names {
		err := filepath.WalkDir(name, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && file != name && skipped(d.Name()):
				return fs.SkipDir
			case d.IsDir() || filepath.Ext(file) != ".go":
				return nil
			}
			was, err := one(out, file, list, write, change)
			changed = changed || was
			failed = append(failed, err)
			return nil
		})
		failed = append(failed, err)
	}
	return changed, errors.Join(failed...)
}

func skipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "testdata" || folder == "target"
}

func one(
	out io.Writer, file string, list, write bool, change func([]byte) ([]byte, error),
) (changed bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	wrapped, err := change(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	changed = !bytes.Equal(text, wrapped)
	if list && changed {
		fmt.Fprintln(out, file)
	}
	if write && changed {
		return true, os.WriteFile(file, wrapped, 0o644)
	}
	if !list && !write {
		_, err = out.Write(wrapped)
	}
	return changed, err
}
