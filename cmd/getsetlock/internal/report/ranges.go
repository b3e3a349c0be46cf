// SPDX-License-Identifier: Apache-2.0

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
// fades. The axis reaches at least to the value of an open end.
type Range struct {
	Name              string
	Says              string // tooltip; empty: the name
	Low, High         float64
	OpenLow, OpenHigh bool
	Alarm             bool // drawn as bad
}

func (r *Ranges) svg(b *strings.Builder, z size) error {
	s, err := r.axis()
	if err != nil {
		return err
	}
	s.left, s.right = 200, z.width-rightRoom
	row, names := 30.0, 26
	if z.narrow() {
		s.left, row, names = 12, 44, 46 // names are above their bars
	}
	bottom := topRoom + row*float64(len(r.Rows))
	s.open(b, z, r.Name, r.X, s.ticks(), bottom)
	fmt.Fprintf(b, `<path class="axis" d="M%s %sV%s"/>`+"\n", num(s.x(0)), num(topRoom), num(bottom))
	for n, one := range r.Rows {
		y := topRoom + row*(float64(n)+.5)
		name := one.Name
		if runes := []rune(name); len(runes) > names {
			name = string(runes[:names-1]) + "…"
		}
		attributes := `font-weight="600"`
		if one.Alarm {
			attributes = `class="wrong"`
		}
		if z.narrow() {
			label(b, 2, y-6, attributes, name)
			y += 10
		} else {
			label(b, 6, y+4, attributes, name)
		}
		r.bar(b, s, one, y)
	}
	b.WriteString("</svg>\n")
	return nil
}

func (r *Ranges) bar(b *strings.Builder, s axis, row Range, y float64) {
	from, to := s.x(row.Low), s.x(row.High)
	class := "range"
	if row.Alarm {
		class += " alarm"
	}
	if row.OpenLow {
		from = s.left
		class += " open"
	}
	if row.OpenHigh {
		to = s.right
		class += " open"
	}
	// A narrow bar is widened around its middle, to be visible.
	if to-from < 4 {
		from, to = (from+to)/2-2, (from+to)/2+2
	}
	says := row.Name
	if row.Says != "" {
		says += ": " + row.Says
	}
	fmt.Fprintf(b, `<g><title>%s</title><rect class="%s" x="%s" y="%s" width="%s" height="12" rx="2"/></g>`+
		"\n", html.EscapeString(says), class, num(from), num(y-6), num(to-from))
}

// axis returns the ends of the axis: beyond all known ends, with 0 between
// them.
func (r *Ranges) axis() (axis, error) {
	s := axis{}
	for _, row := range r.Rows {
		for _, end := range []float64{row.Low, row.High} {
			if math.IsNaN(end) || math.IsInf(end, 0) {
				return s, fmt.Errorf("report: ranges %q cannot show %v", r.Name, end)
			}
			s.low, s.high = min(s.low, end), max(s.high, end)
		}
		if !row.OpenLow && !row.OpenHigh && row.Low > row.High {
			return s, fmt.Errorf("report: ranges %q: %q ends before it begins", r.Name, row.Name)
		}
	}
	if s.low == s.high {
		s.low, s.high = -1, 1
	}
	room := (s.high - s.low) / 20
	return axis{low: s.low - room, high: s.high + room}, nil
}

// ticks returns round values on both sides of 0.
func (s axis) ticks() []float64 {
	step := stride((s.high - s.low) * 1.2)
	var all []float64
	for n := math.Ceil(s.low / step); n*step <= s.high; n++ {
		all = append(all, n*step+0) // +0 turns -0 into 0
	}
	return all
}
