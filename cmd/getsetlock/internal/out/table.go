// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is a column of a table.
type Column struct {
	name  string
	right bool                               // for numbers and durations
	cut   func(text string, most int) string // makes its texts shorter; nil: they stay whole
	rank  int                                // the greatest is left out first; 0: it always stays
}

// Grid is a table for people. It has no frames, so that it can be copied.
type Grid struct {
	columns []Column
	rows    [][]any
}

// NewGrid returns a table without rows.
func NewGrid(columns ...Column) *Grid { return &Grid{columns: columns} }

// NewGridOf returns a table without rows, whose first columns are text and the
// others numbers.
func NewGridOf(text int, names ...string) *Grid {
	g := &Grid{}
	for i, name := range names {
		g.columns = append(g.columns, Column{name: name, right: i >= text})
	}
	return g
}

// Left is a column of text.
func Left(name string) Column { return Column{name: name} }

// Right is a column of numbers or durations, which are aligned at the right.
func Right(name string) Column { return Column{name: name, right: true} }

// Shortened lets Fit cut the texts of a column, by Cut or CutMiddle.
func (c Column) Shortened(by func(text string, most int) string) Column {
	c.cut = by
	return c
}

// Rank lets Fit leave a column out. The greatest rank goes first.
func (c Column) Rank(rank int) Column {
	c.rank = rank
	return c
}

// Painted is a cell with a colour, which only a terminal shows.
type Painted struct {
	Text   string
	Colour Colour
}

func (p Painted) String() string { return p.Text }

// Add appends a row.
func (g *Grid) Add(cells ...any) { g.rows = append(g.rows, cells) }

// Print writes the table to stdout, without colours and with all columns.
func (e *Env) Print(g *Grid) { fmt.Fprintln(e.Stdout, g.render(false)) }

// Fit returns the lines of the table for a terminal of that width; 0 is any
// width. It leaves columns out, those without any value first, and cuts texts.
func (g *Grid) Fit(width int, colours bool) []string {
	if width > 0 {
		g = g.narrowed(width)
	}
	return strings.Split(g.render(colours), "\n")
}

const (
	gap      = 2  // number of blanks between two columns
	leastCut = 12 // columns of the terminal that a cut text keeps
)

// narrowed returns the columns for which there is room when their texts are cut
// as far as they may be, and cuts the texts as little as that room asks for.
func (g *Grid) narrowed(width int) *Grid {
	wants, rank := g.measured()
	longest := max(leastCut, slices.Max(wants))
	var shown []int
	for i := range g.columns {
		shown = append(shown, i)
	}
	fits := func(most int) bool {
		sum := gap * (len(shown) - 1)
		for _, i := range shown {
			if c := g.columns[i]; c.cut != nil {
				sum += min(wants[i], max(most, len(c.name)))
			} else {
				sum += wants[i]
			}
		}
		return sum <= width
	}
	for !fits(leastCut) {
		worst := slices.MaxFunc(shown, func(a, b int) int { return rank[a] - rank[b] })
		if rank[worst] == 0 {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == worst })
	}
	most := leastCut
	for most < longest && fits(most+1) {
		most++
	}
	return g.only(shown, most)
}

// measured returns the width that each column wants, and its rank: columns
// without any value are left out first.
func (g *Grid) measured() (wants, rank []int) {
	for i, c := range g.columns {
		wide, empty := len(c.name), true
		for _, row := range g.rows {
			cell := fmt.Sprint(row[i])
			wide = max(wide, text.StringWidthWithoutEscSequences(cell))
			empty = empty && cell == "-"
		}
		wants, rank = append(wants, wide), append(rank, c.rank)
		if empty && c.rank > 0 {
			rank[i] += 10 * len(g.columns)
		}
	}
	return wants, rank
}

// only returns the given columns, with the texts that may be cut cut to that
// width.
func (g *Grid) only(shown []int, most int) *Grid {
	narrow := &Grid{}
	for _, i := range shown {
		narrow.columns = append(narrow.columns, g.columns[i])
	}
	for _, row := range g.rows {
		var cells []any
		for _, i := range shown {
			cell := row[i]
			if cut := g.columns[i].cut; cut != nil {
				cell = cut(fmt.Sprint(cell), most)
			}
			cells = append(cells, cell)
		}
		narrow.rows = append(narrow.rows, cells)
	}
	return narrow
}

func (g *Grid) render(colours bool) string {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Box = table.BoxStyle{PaddingRight: strings.Repeat(" ", gap)}
	style.Options = table.Options{}
	style.Format.Header = text.FormatUpper
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	header, configs := table.Row{}, []table.ColumnConfig{}
	for i, c := range g.columns {
		header = append(header, c.name)
		if c.right {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight,
				AlignHeader: text.AlignRight})
		}
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(header)
	for _, row := range g.rows {
		cells := slices.Clone(row)
		for i, cell := range cells {
			if p, ok := cell.(Painted); ok && colours {
				cells[i] = p.Colour.Paint(p.Text)
			}
		}
		w.AppendRow(cells)
	}
	return w.Render()
}
