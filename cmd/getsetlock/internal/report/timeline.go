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
	f, err := t.frame()
	if err != nil {
		return err
	}
	f.width, f.left = s.width, leftRoom
	for _, r := range t.Rows {
		f.left = max(f.left, 14+7.5*float64(len([]rune(r.Name))))
	}
	if s.narrow() {
		f.left = 12 // names are above their rows
	}
	open(b, t.Name, s, f.height)
	bottom := f.height - below
	for n, v := range ticks(f.maxX) {
		fmt.Fprintf(b, `<path class="grid" d="M%s %sV%s"/>`, num(f.x(v)), num(topRoom), num(bottom))
		if !s.narrow() || n%2 == 0 {
			label(b, f.x(v), bottom+18, `text-anchor="middle" class="soft"`, value(v))
		}
	}
	label(b, (f.left+f.right())/2, bottom+36, `text-anchor="middle"`, t.X)
	together := t.together()
	if t.Plain {
		together = nil
	}
	for _, both := range together {
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
		fmt.Fprintf(b, `<path class="axis" d="M%s %sH%s"/>`+"\n", num(f.left), num(y), num(f.right()))
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

func (h Span) draw(b *strings.Builder, f frame, name string, y float64) {
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
func (t *Timeline) marks(b *strings.Builder, f frame, s size) {
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
			label(b, max(half+1, min(x, f.width-half-1)), y+dy,
				`text-anchor="middle" class="said`+class+`"`, text)
			break
		}
		b.WriteString("</g>\n")
	}
}

func (t *Timeline) frame() (frame, error) {
	f := frame{height: topRoom + rowHeight*float64(len(t.Rows)) + below}
	see := func(v float64) error {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("report: timeline %q cannot show %v", t.Name, v)
		}
		f.maxX = max(f.maxX, v)
		return nil
	}
	for _, r := range t.Rows {
		for _, s := range r.Holds {
			if err := see(s.From); err != nil {
				return f, err
			}
			if err := see(s.To); err != nil {
				return f, err
			}
		}
	}
	for _, m := range t.Marks {
		if m.Row < 0 || m.Row >= len(t.Rows) {
			return f, fmt.Errorf("report: timeline %q has no row %d", t.Name, m.Row)
		}
		if err := see(m.At); err != nil {
			return f, err
		}
	}
	f.maxX = ceiling(f.maxX)
	return f, nil
}

// together returns the spans in which two rows or more hold, in order. None of
// them touches another.
func (t *Timeline) together() []Span {
	var all []Span
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
