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
	wants := make([]int, len(g.columns)) // width of the widest text of each column
	empty := make([]bool, len(g.columns))
	for i, c := range g.columns {
		wants[i], empty[i] = len(c.name), c.rank > 0
		for _, row := range g.rows {
			cell := fmt.Sprint(row[i])
			wants[i] = max(wants[i], text.StringWidthWithoutEscSequences(cell))
			empty[i] = empty[i] && cell == "-"
		}
	}
	least := func(i int) int {
		if g.columns[i].least == 0 {
			return wants[i]
		}
		return min(wants[i], max(g.columns[i].least, len(g.columns[i].name)))
	}
	shown := make([]int, len(g.columns))
	for i := range shown {
		shown[i] = i
	}
	sum := func(size func(i int) int) int {
		all := gap * (len(shown) - 1)
		for _, i := range shown {
			all += size(i)
		}
		return all
	}
	rank := func(i int) int {
		if empty[i] {
			return g.columns[i].rank + 1000
		}
		return g.columns[i].rank
	}
	for sum(least) > width {
		worst := slices.MaxFunc(shown, func(a, b int) int { return rank(a) - rank(b) })
		if g.columns[worst].rank == 0 {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == worst })
	}
	// The widest columns are cut first.
	for sum(func(i int) int { return wants[i] }) > width {
		widest := -1
		for _, i := range shown {
			if wants[i] > least(i) && (widest < 0 || wants[i] > wants[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		wants[widest]--
	}
	return g.only(shown, wants)
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
