// Package report makes one self-contained HTML page of an answer: words, plots
// as inline SVG, and below each plot the same figures as a table.
//
// The page loads nothing from the network and forbids itself to: its policy
// allows only its own inline styles. It has no script. Save writes a whole page
// or nothing.
//
// The package does not judge what it shows. A plot shows the values that it
// gets, and refuses a value that is not a number.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Page is the content of a page, in the order of its fields.
type Page struct {
	Title    string
	Verdict  string // the answer in one sentence
	Bad      bool   // the answer is bad
	Words    []string
	Sections []Section
	Foot     string // how to make the page again
}

// Section answers one question.
type Section struct {
	Title  string
	Words  string
	Figure Figure // nil: only the table
	Table  Table  // the figure's values, to read and compute with
}

// Table has as many cells in each row as there are columns.
type Table struct {
	Columns []string
	Text    int // number of columns, from the left, that are text; the others are numbers and aligned right
	Rows    [][]string
}

// Figure is a *Plot, a *Timeline or a *Ranges.
type Figure interface {
	svg(b *strings.Builder) error
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure": func(f Figure) (template.HTML, error) {
		var b strings.Builder
		err := f.svg(&b)
		return template.HTML(b.String()), err
	},
	"words": func(t Table, column int) bool { return column < t.Text },
}).Parse(pageText))

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
