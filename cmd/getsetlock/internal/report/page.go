// Package report makes of an answer one HTML page that stands alone: words, plots as inline SVG, and
// below each plot the same figures as a table.
//
// The page asks the network for nothing and forbids itself to: its policy admits no address at all,
// only the styles in it. It has no script. Save puts it in place whole or not at all.
//
// It does not judge what it is given: a plot shows the values in it, and a value that is no number
// is refused.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Page is what is shown, in the order of its fields.
type Page struct {
	Title    string
	Verdict  string // the answer in one sentence
	Bad      bool   // the answer is bad
	Words    []string
	Sections []Section
	Foot     string // how to make the page again
}

// Section is one question of the page.
type Section struct {
	Title  string
	Words  string
	Figure Figure // nil: only the table
	Table  Table  // what the figure shows, for those who read or compute
}

// Table has as many cells in each row as columns.
type Table struct {
	Columns []string
	Text    int // so many columns, from the left, are words; the rest are figures and stand right
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

// Write writes the page. It fails for figures that cannot be drawn and as w does.
func (p Page) Write(w io.Writer) error {
	for _, s := range p.Sections {
		for n, row := range s.Table.Rows {
			if len(row) != len(s.Table.Columns) {
				return fmt.Errorf("report: section %q, row %d: %d cells under %d columns", s.Title, n+1, len(row), len(s.Table.Columns))
			}
		}
	}
	return page.Execute(w, p)
}
