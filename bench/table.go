package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tables renders each scenario's rows as a Markdown table that is also readable
// as text: a line per adapter, a column per metric, and the ratio to the
// baseline after it.
func (rep *Report) Tables(scenarios []Scenario) string {
	var b strings.Builder
	for _, s := range scenarios {
		lines := rep.Table(s)
		if len(lines) < 2 {
			continue
		}
		fmt.Fprintf(&b, "### %s: %s\n\n%s\n", s.Name, s.Title, align(lines))
	}
	for _, line := range rep.Troubles() {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// Troubles has a line for each measurement that failed, and for each that went
// on after a failure.
func (rep *Report) Troubles() (lines []string) {
	for _, f := range rep.Failures {
		lines = append(lines, "Not measured: "+f)
	}
	for _, n := range rep.Notes {
		lines = append(lines, "Failed: "+n)
	}
	return lines
}

// ratioHead heads the column of a metric's ratios, to the right of its figures.
const ratioHead = "×"

// troubles are shown where there are any.
var troubles = []Metric{{"failed", "failed", false}, {"hung", "never came back", false}}

// shown returns the scenario's metrics that have a figure.
func (rep *Report) shown(s Scenario) []Metric {
	var some []Metric
	for _, m := range slices.Concat(s.Metrics, troubles) {
		for _, row := range rep.Rows {
			if row.Scenario == s.Name && row.Metric == m.Name {
				some = append(some, m)
				break
			}
		}
	}
	return some
}

// Table returns a scenario's figures as cells: a heading, then a line per
// adapter.
func (rep *Report) Table(s Scenario) [][]string {
	metrics := rep.shown(s)
	head := []string{""}
	for _, m := range metrics {
		head = append(head, m.Head)
		if m.Ratio {
			head = append(head, ratioHead)
		}
	}
	lines := [][]string{head}
	for _, name := range rep.adapters(s) {
		line := []string{name}
		for _, m := range metrics {
			row, ok := rep.find(s.Name, name, m.Name)
			value, ratio := "", ""
			if ok {
				value = figure(row.Value)
				if row.Ratio != nil {
					ratio = ratioOf(*row.Ratio)
				}
			}
			line = append(line, value)
			if m.Ratio {
				line = append(line, ratio)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// adapters returns the adapters that have rows, in the order of the rows.
func (rep *Report) adapters(s Scenario) (found []string) {
	seen := map[string]bool{}
	for _, row := range rep.Rows {
		if row.Scenario == s.Name && !seen[row.Adapter] {
			seen[row.Adapter] = true
			found = append(found, row.Adapter)
		}
	}
	return found
}

func (rep *Report) find(scenario, adapter, metric string) (Row, bool) {
	for _, row := range rep.Rows {
		if row.Scenario == scenario && row.Adapter == adapter && row.Metric == metric {
			return row, true
		}
	}
	return Row{}, false
}

func align(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	for n, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
				continue
			}
			b.WriteString(" " + pad + cell + " |")
		}
		b.WriteByte('\n')
		if n > 0 {
			continue
		}
		for i, w := range widths {
			if i == 0 {
				b.WriteString("|" + strings.Repeat("-", w+2) + "|")
				continue
			}
			b.WriteString(strings.Repeat("-", w+1) + ":|")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// figure formats three significant digits; from a hundred on, whole numbers in
// groups.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1000:
		return fmt.Sprintf("%.0f", v)
	case size < 1:
		return fmt.Sprintf("%.3f", v)
	case size < 10:
		return fmt.Sprintf("%.2f", v)
	case size < 100:
		return fmt.Sprintf("%.1f", v)
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func ratioOf(v float64) string {
	if v >= 100 {
		return figure(math.Round(v))
	}
	return fmt.Sprintf("%.2f", v)
}
