package cli

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// column is one of a table's.
type column struct {
	name  string
	right bool // numbers and durations
}

// grid is a table as people read it: the same on a terminal and in a file, without colours or
// frames, so that it can be cut and pasted.
type grid struct {
	columns []column
	rows    []table.Row
}

func newGrid(columns ...column) *grid { return &grid{columns: columns} }

func left(name string) column  { return column{name: name} }
func right(name string) column { return column{name: name, right: true} }

func (g *grid) add(cells ...any) { g.rows = append(g.rows, cells) }

// print writes the table to stdout.
func (e *Env) print(g *grid) {
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
