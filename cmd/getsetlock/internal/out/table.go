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
	name   string
	right  bool // for numbers and durations
	least  int  // columns of the terminal that it can be cut to; 0: it is never cut
	middle bool // it is cut in the middle
	rank   int  // among several columns the greatest is left out first; 0: it always stays
}

// Grid is a table for people. It has no frames, so that it can be copied.
type Grid struct {
	columns []Column
	rows    [][]any
}

// NewGrid returns a table without rows.
func NewGrid(columns ...Column) *Grid { return &Grid{columns: columns} }

// Left is a column of text.
func Left(name string) Column { return Column{name: name} }

// Right is a column of numbers or durations, which are aligned at the right.
func Right(name string) Column { return Column{name: name, right: true} }

// Least lets Fit cut the texts of a column to that width.
func (c Column) Least(columns int) Column {
	c.least = columns
	return c
}

// Middle lets Fit cut the texts of a column in the middle, where Least lets it
// cut them.
func (c Column) Middle() Column {
	c.middle = true
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

// gap is the number of blanks between two columns.
const gap = 2

// narrowed returns the columns for which there is room, and their texts, cut.
func (g *Grid) narrowed(width int) *Grid {
	n := &narrowing{grid: g, wants: make([]int, len(g.columns)), empty: make([]bool, len(g.columns))}
	for i, c := range g.columns {
		n.shown = append(n.shown, i)
		n.wants[i], n.empty[i] = len(c.name), true
		for _, row := range g.rows {
			cell := fmt.Sprint(row[i])
			n.wants[i] = max(n.wants[i], text.StringWidthWithoutEscSequences(cell))
			n.empty[i] = n.empty[i] && cell == "-"
		}
	}
	n.leaveOut(width)
	n.cut(width)
	return g.only(n.shown, n.wants)
}

// narrowing looks for columns and widths that fit.
type narrowing struct {
	grid  *Grid
	wants []int  // width of each column
	empty []bool // the column has no value in any row
	shown []int
}

// least returns the width to which a column can be cut.
func (n *narrowing) least(i int) int {
	c := n.grid.columns[i]
	if c.least == 0 {
		return n.wants[i]
	}
	return min(n.wants[i], max(c.least, len(c.name)))
}

// sum returns the width of the table if each column has a width by size.
func (n *narrowing) sum(size func(i int) int) int {
	all := gap * (len(n.shown) - 1)
	for _, i := range n.shown {
		all += size(i)
	}
	return all
}

// rank returns the rank of a column. Those without any value go first.
func (n *narrowing) rank(i int) int {
	rank := n.grid.columns[i].rank
	if n.empty[i] && rank > 0 {
		rank += len(n.wants) * 10
	}
	return rank
}

// leaveOut leaves columns out until the others fit when they are cut.
func (n *narrowing) leaveOut(width int) {
	for n.sum(n.least) > width {
		worst := slices.MaxFunc(n.shown, func(a, b int) int { return n.rank(a) - n.rank(b) })
		if n.rank(worst) == 0 {
			return
		}
		n.shown = slices.DeleteFunc(n.shown, func(i int) bool { return i == worst })
	}
}

// cut makes the widest columns narrower until all fit.
func (n *narrowing) cut(width int) {
	for n.sum(func(i int) int { return n.wants[i] }) > width {
		widest := -1
		for _, i := range n.shown {
			if n.wants[i] > n.least(i) && (widest < 0 || n.wants[i] > n.wants[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		n.wants[widest]--
	}
}

// only returns the given columns, with texts cut to the given widths.
func (g *Grid) only(shown, widths []int) *Grid {
	narrow := &Grid{}
	for _, i := range shown {
		narrow.columns = append(narrow.columns, g.columns[i])
	}
	for _, row := range g.rows {
		var cells []any
		for _, i := range shown {
			cut := Cut
			if g.columns[i].middle {
				cut = CutMiddle
			}
			if p, ok := row[i].(Painted); ok {
				p.Text = cut(p.Text, widths[i])
				cells = append(cells, p)
				continue
			}
			cells = append(cells, cut(fmt.Sprint(row[i]), widths[i]))
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
		config := table.ColumnConfig{Number: i + 1}
		if c.right {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, config)
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
