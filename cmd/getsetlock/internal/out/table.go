package out

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is a column of a table.
type Column struct {
	name  string
	right bool // for numbers and durations
}

// Grid is a table for people. It looks the same on a terminal and in a file: no
// colours and no frames, so that it can be copied.
type Grid struct {
	columns []Column
	rows    []table.Row
}

// NewGrid returns a table without rows.
func NewGrid(columns ...Column) *Grid { return &Grid{columns: columns} }

// Left is a column of text.
func Left(name string) Column { return Column{name: name} }

// Right is a column of numbers or durations, which are aligned at the right.
func Right(name string) Column { return Column{name: name, right: true} }

// Add appends a row.
func (g *Grid) Add(cells ...any) { g.rows = append(g.rows, cells) }

// Print writes the table to stdout.
func (e *Env) Print(g *Grid) {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Box = table.BoxStyle{PaddingRight: "  "}
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
	w.AppendRows(g.rows)
	fmt.Fprintln(e.Stdout, w.Render())
}
