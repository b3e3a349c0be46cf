package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Timeline draws one row for each participant: when it held, and what it did.
// Time runs to the right.
type Timeline struct {
	Name  string
	X     string // what the axis shows, with the unit
	Rows  []Row
	Marks []Mark
}

// Row is one participant.
type Row struct {
	Name  string
	Holds []Span
}

// Span is a period, in the axis' unit.
type Span struct{ From, To float64 }

// Mark is an act of a participant. Marks of one row and instant are drawn at
// one place; the number tells them apart in the table.
type Mark struct {
	Row    int
	At     float64
	Number int
	Says   string // tooltip
}

const rowHeight = 58.0

func (t *Timeline) svg(b *strings.Builder) error {
	f, err := t.frame()
	if err != nil {
		return err
	}
	open(b, t.Name, f.height)
	bottom := f.height - below
	for _, v := range ticks(f.maxX) {
		fmt.Fprintf(b, `<path class="grid" d="M%s %sV%s"/>`, num(f.x(v)), num(topRoom), num(bottom))
		label(b, f.x(v), bottom+18, `text-anchor="middle" class="soft"`, value(v))
	}
	label(b, (leftRoom+width-rightRoom)/2, bottom+36, `text-anchor="middle"`, t.X)
	for _, s := range t.together() {
		fmt.Fprintf(b,
			`<rect class="both" x="%s" y="%s" width="%s" height="%s"><title>two hold</title></rect>`+"\n",
			num(f.x(s.From)), num(topRoom), num(max(3, f.x(s.To)-f.x(s.From))), num(bottom-topRoom))
	}
	for n, r := range t.Rows {
		y := topRoom + rowHeight*(float64(n)+.5)
		label(b, 6, y+4, `font-weight="600"`, r.Name)
		fmt.Fprintf(b, `<path class="axis" d="M%s %sH%s"/>`+"\n", num(leftRoom), num(y), num(width-rightRoom))
		for _, s := range r.Holds {
			fmt.Fprintf(b, `<rect class="holds" x="%s" y="%s" width="%s" height="10" rx="2"><title>%s holds</title></rect>`+"\n",
				num(f.x(s.From)), num(y-5), num(max(4, f.x(s.To)-f.x(s.From))), html.EscapeString(r.Name))
		}
	}
	t.marks(b, f)
	b.WriteString("</svg>\n")
	return nil
}

// marks draws the marks. Marks that would cover each other are moved, in turn
// above and below the line.
func (t *Timeline) marks(b *strings.Builder, f frame) {
	placed := map[[2]int]int{}
	for _, m := range t.Marks {
		x, y := f.x(m.At), topRoom+rowHeight*(float64(m.Row)+.5)
		cell := [2]int{m.Row, int(m.At / f.maxX * 1000)}
		n := placed[cell]
		placed[cell]++
		x += 15 * float64(n/2)
		side := -11.0
		if n%2 == 1 {
			side = 20
		}
		fmt.Fprintf(b, `<g><title>%s</title><circle class="dot" cx="%s" cy="%s" r="2.5"/>`,
			html.EscapeString(m.Says), num(f.x(m.At)), num(y))
		label(b, x, y+side, `text-anchor="middle"`, fmt.Sprint(m.Number))
		b.WriteString("</g>\n")
	}
}

func (t *Timeline) frame() (frame, error) {
	f := frame{maxY: 1, height: topRoom + rowHeight*float64(len(t.Rows)) + below}
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

// together returns the spans in which two rows hold.
func (t *Timeline) together() []Span {
	var all []Span
	for n, r := range t.Rows {
		for _, other := range t.Rows[n+1:] {
			for _, s := range r.Holds {
				for _, o := range other.Holds {
					if both := (Span{max(s.From, o.From), min(s.To, o.To)}); both.From <= both.To {
						all = append(all, both)
					}
				}
			}
		}
	}
	return all
}
