package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Ranges draws one bar for each participant, from the least to the greatest
// possible value. The axis has negative and positive values, and its 0 is
// marked.
type Ranges struct {
	Name string
	X    string // what the axis shows, with the unit
	Rows []Range
}

// Range is one bar. An unknown end is open: the bar runs to the edge there and
// fades.
type Range struct {
	Name              string
	Low, High         float64
	OpenLow, OpenHigh bool
	Alarm             bool // drawn as a contradiction
}

const (
	rangeHeight = 30.0
	nameRoom    = 200.0
)

// sides maps values to the drawing, negative values too.
type sides struct{ low, high float64 }

func (s sides) x(v float64) float64 {
	return nameRoom + (v-s.low)/(s.high-s.low)*(width-nameRoom-rightRoom)
}

func (r *Ranges) svg(b *strings.Builder) error {
	s, err := r.sides()
	if err != nil {
		return err
	}
	bottom := topRoom + rangeHeight*float64(len(r.Rows))
	open(b, r.Name, bottom+below)
	for _, v := range s.ticks() {
		fmt.Fprintf(b, `<path class="grid" d="M%s %sV%s"/>`, num(s.x(v)), num(topRoom), num(bottom))
		label(b, s.x(v), bottom+18, `text-anchor="middle" class="soft"`, value(v))
	}
	fmt.Fprintf(b, `<path class="axis" d="M%s %sV%s"/>`+"\n", num(s.x(0)), num(topRoom), num(bottom))
	label(b, nameRoom+(width-nameRoom-rightRoom)/2, bottom+36, `text-anchor="middle"`, r.X)
	for n, row := range r.Rows {
		r.bar(b, s, row, topRoom+rangeHeight*(float64(n)+.5))
	}
	b.WriteString("</svg>\n")
	return nil
}

func (r *Ranges) bar(b *strings.Builder, s sides, row Range, y float64) {
	name := row.Name
	if runes := []rune(name); len(runes) > 26 {
		name = string(runes[:25]) + "…"
	}
	label(b, 6, y+4, `font-weight="600"`, name)
	from, to := s.x(row.Low), s.x(row.High)
	class := "range"
	if row.Alarm {
		class += " alarm"
	}
	if row.OpenLow {
		from = nameRoom
		class += " open"
	}
	if row.OpenHigh {
		to = width - rightRoom
		class += " open"
	}
	// A narrow bar is widened around its middle, to be visible.
	if to-from < 4 {
		from, to = (from+to)/2-2, (from+to)/2+2
	}
	fmt.Fprintf(b, `<rect class="%s" x="%s" y="%s" width="%s" height="12" rx="2"><title>%s</title></rect>`+
		"\n",
		class, num(from), num(y-6), num(to-from), html.EscapeString(row.Name))
}

// sides returns the ends of the axis: beyond all known ends, with 0 between
// them.
func (r *Ranges) sides() (sides, error) {
	s := sides{}
	for _, row := range r.Rows {
		for _, end := range []struct {
			v    float64
			open bool
		}{{row.Low, row.OpenLow}, {row.High, row.OpenHigh}} {
			if end.open {
				continue
			}
			if math.IsNaN(end.v) || math.IsInf(end.v, 0) {
				return s, fmt.Errorf("report: ranges %q cannot show %v", r.Name, end.v)
			}
			s.low, s.high = min(s.low, end.v), max(s.high, end.v)
		}
		if !row.OpenLow && !row.OpenHigh && row.Low > row.High {
			return s, fmt.Errorf("report: ranges %q: %q ends before it begins", r.Name, row.Name)
		}
	}
	if s.low == s.high {
		s.low, s.high = -1, 1
	}
	room := (s.high - s.low) / 20
	return sides{s.low - room, s.high + room}, nil
}

// ticks returns round values on both sides of 0.
func (s sides) ticks() []float64 {
	step := stride((s.high - s.low) * 1.2)
	var all []float64
	for n := math.Ceil(s.low / step); n*step <= s.high; n++ {
		all = append(all, n*step+0) // +0 turns -0 into 0
	}
	return all
}
