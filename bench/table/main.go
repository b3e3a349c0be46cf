// SPDX-License-Identifier: Apache-2.0

// Command table reads the output of the benchmarks, of one or more rounds, and
// prints a Markdown table for each: a line per lock, a column per unit.
//
//	table [-doc FILE] <bench.txt
//
// The figures are medians over the rounds. A column headed × has the ratios to
// the table's first lock; a ratio is taken within a round, and the table has
// the median. With -doc each table replaces the one of FILE between the lines
// "<!-- bench: NAME -->" and "<!-- end of bench -->".
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func main() {
	doc := flag.String("doc", "", "put the tables into this Markdown file")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, doc string) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	tables := read(string(text))
	for _, t := range tables {
		fmt.Fprintf(out, "### %s\n\n%s\n", t.name, t)
	}
	if doc == "" {
		return nil
	}
	page, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	for _, t := range tables {
		page = t.fill(page)
	}
	return os.WriteFile(doc, page, 0o644)
}

// columns are the units in the order of the table; others come after them.
var columns = strings.Fields(`µs_p50 gap_p50_µs gap_p99_µs to_others_% acquisitions/s hand-offs/s
	late_p50_ms latest_ms bytes_a_lease goroutines messages/s lost seconds getsetlock_% getsetlock/s Java/s
	fewest_of_a_process fewest_of_a_jar server_CPU_% commands/s µs_p99 wait_p50_ms longest_ms
	longest_of_a_jar_ms stuck starved Jain overlaps allocations messages commands`)

// compared are the units whose ratios are shown too.
var compared = strings.Fields(`µs_p50 gap_p50_µs gap_p99_µs acquisitions/s hand-offs/s bytes_a_lease messages/s`)

// table has what one Benchmark function measured.
type table struct {
	name    string
	units   []string                        // in the order of the columns
	locks   []string                        // in the order of the first round
	figures map[string][]map[string]float64 // by lock, round and unit
}

// cpus is what go test appends to a name where there is more than one CPU.
var cpus = regexp.MustCompile(`-\d+$`)

// read returns the tables in the order of the first round. A line "round: N"
// begins a round.
func read(text string) (all []*table) {
	round := 0
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "round: "); ok {
			round, _ = strconv.Atoi(strings.TrimSpace(n))
		}
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		name, lock, ok := strings.Cut(strings.TrimPrefix(words[0], "Benchmark"), "/lock=")
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(t *table) bool { return t.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, &table{name: name, units: slices.Clone(columns),
				figures: map[string][]map[string]float64{}})
		}
		all[i].add(strings.ReplaceAll(cpus.ReplaceAllString(lock, ""), "_", " "), round, words[2:])
	}
	return all
}

// add reads pairs of a value and its unit.
func (t *table) add(lock string, round int, words []string) {
	if !slices.Contains(t.locks, lock) {
		t.locks = append(t.locks, lock)
	}
	for len(t.figures[lock]) <= round {
		t.figures[lock] = append(t.figures[lock], map[string]float64{})
	}
	for pair := range slices.Chunk(words, 2) {
		v, err := strconv.ParseFloat(pair[0], 64)
		if err != nil || len(pair) < 2 {
			continue
		}
		t.figures[lock][round][pair[1]] = v
		if !slices.Contains(t.units, pair[1]) {
			t.units = append(t.units, pair[1])
		}
	}
}

// medians returns the medians of a lock's figures over the rounds, and of their
// ratios to those of the first lock. Without a figure they are NaN.
func (t *table) medians(unit, lock string) (figure, ratio float64) {
	var values, ratios []float64
	first := t.figures[t.locks[0]]
	for round, figures := range t.figures[lock] {
		if v, ok := figures[unit]; ok {
			values = append(values, v)
			if round < len(first) && first[round][unit] != 0 {
				ratios = append(ratios, v/first[round][unit])
			}
		}
	}
	return median(values), median(ratios)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// String returns the table in Markdown, aligned to be readable as text.
func (t *table) String() string {
	lines := column(make([]string, len(t.locks)+2), append([]string{""}, t.locks...))
	for _, unit := range t.units {
		figures, ratios := []string{strings.ReplaceAll(unit, "_", " ")}, []string{"×"}
		for _, lock := range t.locks {
			figure, ratio := t.medians(unit, lock)
			figures, ratios = append(figures, digits(figure)), append(ratios, digits(ratio))
		}
		if strings.Join(figures[1:], "") == "" {
			continue
		}
		lines = column(lines, figures)
		if slices.Contains(compared, unit) {
			lines = column(lines, ratios)
		}
	}
	return strings.Join(lines, " |\n") + " |\n"
}

// column appends a column to a table's lines, the second of which separates its
// head. The first column is flush left, the others right.
func column(lines, cells []string) []string {
	width := 3
	for _, cell := range cells {
		width = max(width, utf8.RuneCountInString(cell))
	}
	left := lines[0] == ""
	rule := strings.Repeat("-", width-1) + ":"
	if left {
		rule = strings.Repeat("-", width)
	}
	for i, cell := range slices.Insert(cells, 1, rule) {
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
		if left {
			lines[i] = "| " + cell + pad
		} else {
			lines[i] += " | " + pad + cell
		}
	}
	return lines
}

// digits formats three significant digits; from a hundred on, whole numbers in
// groups; NaN as nothing.
func digits(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// fill puts the table into its block of the page. A page without that block
// stays as it is: it shows only some of the tables.
func (t *table) fill(page []byte) []byte {
	block := regexp.MustCompile(`(?s)(<!-- bench: ` + t.name + ` -->\n).*?(<!-- end of bench -->\n)`)
	return block.ReplaceAll(page, []byte("$1\n"+t.String()+"\n$2"))
}
