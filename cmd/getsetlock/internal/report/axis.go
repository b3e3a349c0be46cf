// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// The room around the axis of a drawing, in units of its viewBox.
const leftRoom, rightRoom, topRoom, below = 64.0, 20.0, 16.0, 52.0

// frame maps values to the drawing.
type frame struct{ maxX, width, height, left float64 }

func (f frame) right() float64 { return f.width - rightRoom }

func (f frame) x(v float64) float64 {
	return f.left + v/f.maxX*(f.right()-f.left)
}

// open begins a drawing. name is what screen readers read.
func open(b *strings.Builder, name string, s size, high float64) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" role="img" viewBox="0 0 %s %s" aria-label="%s">`+
		"\n", s.class, num(s.width), num(high), html.EscapeString(name))
}

func label(b *strings.Builder, x, y float64, attributes, text string) {
	fmt.Fprintf(b, `<text x="%s" y="%s" %s>%s</text>`+"\n", num(x), num(y), attributes,
		html.EscapeString(text))
}

// num formats a coordinate. Two decimals are finer than any screen.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// value formats the number at a tick.
func value(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// ceiling returns the end of an axis: the first tick at or above v, give or
// take what is too small to see.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	s := stride(v)
	return math.Ceil(v/s-0.01) * s
}

// ticks returns four to ten round values.
func ticks(limit float64) []float64 {
	s := stride(limit)
	var all []float64
	for n := 0; float64(n)*s <= limit*(1+1e-9); n++ {
		all = append(all, float64(n)*s)
	}
	return all
}

// stride returns 1, 2 or 5 times a power of ten: at least a tenth and less than
// a quarter of v.
func stride(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v/10)))
	for _, m := range []float64{1, 2, 5} {
		if v/(m*power) <= 10 {
			return m * power
		}
	}
	return 10 * power
}
