// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Timeline draws one row for each participant: when it held, and what it did.
// Time runs to the right.
type Timeline struct {
	Name  string
	X     string // what the axis shows, with the unit
	Rows  []Row
	Marks []Mark
	// Together is what it means if two rows have a span at once. Empty: two
	// hold.
	Together string
	Plain    bool // spans of two rows at once do no harm, and are not shaded
}

// Row is one participant. Below the last of them there may be rows of things.
type Row struct {
	Name  string
	Holds []Span
}

// Span is a period, in the axis' unit.
type Span struct {
	From, To float64
	Says     string // tooltip; empty: the row's name and "holds"
	Bad      bool
}

// Mark is an act of a participant. Marks of one row and instant are drawn at
// one place. A label that finds no room is left out; the dot and the table
// remain.
type Mark struct {
	Row    int
	At     float64
	Number int    // shown where there is no label
	Label  string // empty: the number
	Says   string // tooltip
	Bad    bool
}

const rowHeight = 58.0

func (t *Timeline) svg(b *strings.Builder, s size) error {
	end, err := t.end()
	if err != nil {
		return err
	}
	f := axis{high: end, left: leftRoom, right: s.width - rightRoom}
	for _, r := range t.Rows {
		f.left = max(f.left, 14+7.5*float64(len([]rune(r.Name))))
	}
	if s.narrow() {
		f.left = 12 // names are above their rows
	}
	bottom := topRoom + rowHeight*float64(len(t.Rows))
	f.open(b, s, t.Name, t.X, ticks(end), bottom)
	for _, both := range t.together() {
		fmt.Fprintf(b,
			`<rect class="both" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n",
			num(f.x(both.From)), num(topRoom), num(max(3, f.x(both.To)-f.x(both.From))), num(bottom-topRoom),
			html.EscapeString(cmp.Or(t.Together, "two hold")))
	}
	for n, r := range t.Rows {
		y := lineOf(n)
		if s.narrow() {
			label(b, 2, y-18, `font-weight="600"`, r.Name)
		} else {
			label(b, 6, y+4, `font-weight="600"`, r.Name)
		}
		fmt.Fprintf(b, `<path class="axis" d="M%s %sH%s"/>`+"\n", num(f.left), num(y), num(f.right))
		for _, hold := range r.Holds {
			hold.draw(b, f, r.Name, y)
		}
	}
	t.marks(b, f, s)
	b.WriteString("</svg>\n")
	return nil
}

// lineOf returns the height of a row's line in the drawing.
func lineOf(row int) float64 { return topRoom + rowHeight*(float64(row)+.5) }

func (h Span) draw(b *strings.Builder, f axis, name string, y float64) {
	class, says := "holds", h.Says
	if h.Bad {
		class += " wrong"
	}
	if says == "" {
		says = name + " holds"
	}
	fmt.Fprintf(b,
		`<rect class="%s" x="%s" y="%s" width="%s" height="10" rx="2"><title>%s</title></rect>`+"\n",
		class, num(f.x(h.From)), num(y-5), num(max(4, f.x(h.To)-f.x(h.From))), html.EscapeString(says))
}

// marks draws the marks in order. A label goes above the line, or below where
// it would cover another one, or nowhere.
func (t *Timeline) marks(b *strings.Builder, f axis, s size) {
	type side struct {
		row   int
		below bool
	}
	taken := map[side]float64{} // right end of the last label
	if s.narrow() {
		for n, r := range t.Rows {
			taken[side{n, false}] = 6 + 7.5*float64(len([]rune(r.Name)))
		}
	}
	for _, m := range t.Marks {
		x, y := f.x(m.At), lineOf(m.Row)
		class, text := "", m.Label
		if m.Bad {
			class = " wrong"
		}
		if text == "" {
			text = fmt.Sprint(m.Number)
		}
		fmt.Fprintf(b, `<g><title>%s</title><circle class="hit" cx="%s" cy="%s" r="8"/>`,
			html.EscapeString(m.Says), num(x), num(y))
		fmt.Fprintf(b, `<circle class="dot%s" cx="%s" cy="%s" r="3"/>`, class, num(x), num(y))
		half := 3.8 * float64(len([]rune(text)))
		for _, under := range []bool{false, true} {
			at := side{m.Row, under}
			if end, seen := taken[at]; seen && x-half < end+3 {
				continue
			}
			taken[at] = x + half
			dy := -11.0
			if under {
				dy = 20
			}
			label(b, max(half+1, min(x, s.width-half-1)), y+dy,
				`text-anchor="middle" class="said`+class+`"`, text)
			break
		}
		b.WriteString("</g>\n")
	}
}

// end returns the end of the axis. It refuses values that are none.
func (t *Timeline) end() (float64, error) {
	var values []float64
	for _, r := range t.Rows {
		for _, s := range r.Holds {
			values = append(values, s.From, s.To)
		}
	}
	for _, m := range t.Marks {
		if m.Row < 0 || m.Row >= len(t.Rows) {
			return 0, fmt.Errorf("report: timeline %q has no row %d", t.Name, m.Row)
		}
		values = append(values, m.At)
	}
	last := 0.0
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return 0, fmt.Errorf("report: timeline %q cannot show %v", t.Name, v)
		}
		last = max(last, v)
	}
	return ceiling(last), nil
}

// together returns the spans in which two rows or more hold, in order, if that
// does harm. None of them touches another.
func (t *Timeline) together() []Span {
	var all []Span
	if t.Plain {
		return nil
	}
	for n, r := range t.Rows {
		for _, other := range t.Rows[n+1:] {
			for _, s := range r.Holds {
				for _, o := range other.Holds {
					if both := (Span{From: max(s.From, o.From), To: min(s.To, o.To)}); both.From <= both.To {
						all = append(all, both)
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var merged []Span
	for _, s := range all {
		if n := len(merged); n > 0 && s.From <= merged[n-1].To {
			merged[n-1].To = max(merged[n-1].To, s.To)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}
