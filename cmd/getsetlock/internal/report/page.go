// SPDX-License-Identifier: Apache-2.0

// Package report has the answer of a verb, and makes one self-contained HTML
// page of it: the verdict, the causes, tables, and drawings as inline SVG. A
// drawing shows what its table does not: who held when, and where intervals
// with unknown ends lie to each other. Package out prints the same answer as
// text.
//
// The page loads nothing from the network and forbids itself to: its policy
// allows only its own inline styles. It has no script. Save writes a whole page
// or nothing.
//
// Each figure is drawn twice, for a desk and for a phone; the style shows one
// of the two. Red means bad and nothing else.
//
// The package does not judge what it shows. A drawing shows the values that it
// gets, and refuses a value that is not a number.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Page is an answer, for people. A page shows it in the order of its fields.
type Page struct {
	Title    string
	Made     time.Time // when the page was made; zero: not shown
	Verdict  string    // the answer in one sentence
	Bad      bool      // the answer is bad
	Words    []string
	Causes   []Cause
	Sections []Section
	Foot     string // how to make the page again
}

// Cause is a thing to mend, with the findings that it explains.
type Cause struct {
	Level    string   // in text: ERROR, WARNING or NOTE
	Culprit  string   // name of the client, key or server that it is about; empty: Says names it
	Says     []string // what is wrong, without full stops
	Do       []string // what to do about it
	Bad      bool
	Explains string // sentence above the findings
	Findings []string
}

// Section answers one question.
type Section struct {
	Title  string // on a page
	Words  string
	Legend string // what the figure and its table mean
	Figure Figure // nil: only the table
	Table  Table  // the figure's values, to read and compute with
	Long   bool   // a text leaves it out
}

// Table has as many cells in each row as there are columns.
type Table struct {
	Columns []string
	Text    int // number of columns, from the left, that are text; the others are numbers and aligned right
	Rows    [][]string
	Bad     []int // numbers of the rows, from 0, that are shown as bad
}

// Figure is a *Timeline or a *Ranges.
type Figure interface {
	svg(b *strings.Builder, s size) error
}

// size is the drawing's width in units of its viewBox, and its style class.
type size struct {
	width float64
	class string
}

// narrow reports whether the drawing is for a phone.
func (s size) narrow() bool { return s == phone }

var desk, phone = size{760, "wide"}, size{360, "narrow"}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure":  draw,
	"words":   func(t Table, column int) bool { return column < t.Text },
	"long":    func(cell string) bool { return len(cell) > longCell },
	"name":    func(cell string) bool { return len(cell) > longName },
	"bad":     func(t Table, row int) bool { return slices.Contains(t.Bad, row) },
	"date":    func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"says":    sentences,
	"capital": Capital,
	"join":    func(all []string) string { return strings.Join(all, "; ") },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"add":     func(a, b int) int { return a + b },
	"folds":   func(t Table) bool { return len(t.Rows) > mostUnfolded },
}).Parse(pageText))

// longName is the number of bytes from which on a cell of the first column is
// broken into lines on a phone.
const longName = 18

// longCell is the number of bytes from which on a cell is broken into lines.
const longCell = 44

// mostUnfolded is the number of rows of a table that is shown at once. A longer
// one is folded on a screen, and printed whole.
const mostUnfolded = 15

// mostSaid is the number of sentences about a cause. The table has all.
const mostSaid = 5

// sentences returns what is wrong as sentences of a paragraph.
func sentences(all []string) string {
	var text []string
	for _, s := range all[:min(len(all), mostSaid)] {
		text = append(text, Capital(s)+".")
	}
	if more := len(all) - mostSaid; more > 0 {
		text = append(text, fmt.Sprintf("And %d more, which the table shows.", more))
	}
	return strings.Join(text, " ")
}

// Capital returns text that begins with a capital letter.
func Capital(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	if n == 0 {
		return text
	}
	return string(unicode.ToUpper(first)) + text[n:]
}

// draw returns a figure in both sizes.
func draw(f Figure) (template.HTML, error) {
	var b strings.Builder
	for _, s := range []size{desk, phone} {
		if err := f.svg(&b, s); err != nil {
			return "", err
		}
	}
	return template.HTML(b.String()), nil
}

// Write writes the page to w. It fails for figures that cannot be drawn, and
// with the errors of w.
func (p Page) Write(w io.Writer) error {
	for _, s := range p.Sections {
		for n, row := range s.Table.Rows {
			if len(row) != len(s.Table.Columns) {
				return fmt.Errorf("report: section %q, row %d: %d cells under %d columns", s.Title, n+1,
					len(row), len(s.Table.Columns))
			}
		}
	}
	return page.Execute(w, p)
}
