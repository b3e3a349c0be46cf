// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"
)

// The room around the axis of a drawing, in units of its viewBox.
const leftRoom, rightRoom, topRoom, below = 64.0, 20.0, 16.0, 52.0

// axis maps values from low to high to the drawing, from left to right.
type axis struct{ low, high, left, right float64 }

func (a axis) x(v float64) float64 {
	return a.left + (v-a.low)/(a.high-a.low)*(a.right-a.left)
}

// open begins a drawing with a grid and its axis. name is what screen readers
// read, bottom is where the grid ends. On a phone every other tick has a
// number.
func (a axis) open(b *strings.Builder, s size, name, unit string, ticks []float64, bottom float64) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" role="img" viewBox="0 0 %s %s" aria-label="%s">`+
		"\n", s.class, num(s.width), num(bottom+below), html.EscapeString(name))
	for n, v := range ticks {
		fmt.Fprintf(b, `<path class="grid" d="M%s %sV%s"/>`, num(a.x(v)), num(topRoom), num(bottom))
		if !s.narrow() || n%2 == 0 {
			label(b, a.x(v), bottom+18, `text-anchor="middle" class="soft"`, value(v))
		}
	}
	label(b, (a.left+a.right)/2, bottom+36, `text-anchor="middle"`, unit)
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

// Unit returns the unit of an axis of that length, as a time and as a word.
func Unit(length time.Duration) (time.Duration, string) {
	switch {
	case length >= 72*time.Hour:
		return 24 * time.Hour, "days"
	case length >= 3*time.Hour:
		return time.Hour, "hours"
	case length >= 3*time.Minute:
		return time.Minute, "minutes"
	}
	return time.Second, "seconds"
}
