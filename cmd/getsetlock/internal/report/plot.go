package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Plot draws lines. Both axes begin at 0.
type Plot struct {
	Name   string // description of the figure, for readers who do not see it
	X, Y   string // what the axes show, with the unit
	Lines  []Line
	Points []Point
	Shade  bool // shade the safe area below the first line and the unsafe area above it
	Share  bool // Y is a share of one, shown in percent
}

// Line connects points by straight pieces, in the order of X. A line of one
// point is a dot.
type Line struct {
	Name     string
	Protocol string // chooses the colour; empty: of no protocol
	Dashed   bool
	At       []XY
}

// colours are the style classes of the protocols, the same on all pages. Old
// clients are blue wherever they are drawn. No protocol is red: red means bad.
var colours = map[string]string{
	"": "p0", "verbatim": "p1", "legacy": "p1", "bare": "p1", "observe": "p2", "hardened": "p2",
	"dual": "p3", "sealed": "p4", "modern": "p5", "none": "p6", "watch": "p6",
}

func (l Line) style() string {
	class := colours[l.Protocol]
	if l.Dashed {
		class += " dash"
	}
	return class
}

// XY is a point, in the units of the axes.
type XY struct{ X, Y float64 }

// Point is a point with a name.
type Point struct {
	Name string
	At   XY
}

// Size of the drawing, and the room around its axes, in units of its viewBox.
const (
	height                              = 380.0
	leftRoom, rightRoom, topRoom, below = 64.0, 20.0, 16.0, 52.0
)

// frame maps values to the drawing.
type frame struct{ maxX, maxY, width, height, left float64 }

func (f frame) right() float64 { return f.width - rightRoom }

func (f frame) x(v float64) float64 {
	return f.left + v/f.maxX*(f.right()-f.left)
}

func (f frame) y(v float64) float64 {
	return topRoom + (1-v/f.maxY)*(f.height-topRoom-below)
}

func (p *Plot) legend() []Line { return p.Lines }

func (p *Plot) svg(b *strings.Builder, s size) error {
	f, err := p.frame()
	if err != nil {
		return err
	}
	f.width, f.left = s.width, leftRoom
	if s.narrow() {
		f.height, f.left = 280, 58
	}
	open(b, p.Name, s, f.height)
	if p.Shade && len(p.Lines) > 0 {
		p.shade(b, f)
	}
	p.axes(b, f, s)
	for _, l := range p.Lines {
		p.line(b, f, l)
	}
	for _, pt := range p.Points {
		x, y := f.x(pt.At.X), f.y(pt.At.Y)
		fmt.Fprintf(b, `<circle class="here" cx="%s" cy="%s" r="6"><title>%s</title></circle>`, num(x), num(y),
			html.EscapeString(pt.Name+": "+p.says(pt.At)))
		// Put the name on the side that has room, and not on the upper edge.
		anchor, dx := "start", 10.0
		if pt.At.X > f.maxX/2 {
			anchor, dx = "end", -10
		}
		dy := -9.0
		if y < topRoom+20 {
			dy = 18
		}
		label(b, x+dx, y+dy, `text-anchor="`+anchor+`" font-weight="600"`, pt.Name)
	}
	b.WriteString("</svg>\n")
	return nil
}

// mostTips is the number of points of a line up to which each has a tooltip of
// its own.
const mostTips = 60

func (p *Plot) line(b *strings.Builder, f frame, l Line) {
	if len(l.At) > 1 {
		fmt.Fprintf(b, `<path class="line %s" d="%s"><title>%s</title></path>`+"\n", l.style(), path(f, l.At),
			html.EscapeString(l.Name))
	}
	for _, at := range l.At {
		x, y := num(f.x(at.X)), num(f.y(at.Y))
		if len(l.At) == 1 {
			fmt.Fprintf(b, `<circle class="at %s" cx="%s" cy="%s" r="4.5"/>`, colours[l.Protocol], x, y)
		}
		if len(l.At) <= mostTips {
			fmt.Fprintf(b, `<circle class="hit" cx="%s" cy="%s" r="8"><title>%s</title></circle>`+"\n", x, y,
				html.EscapeString(l.Name+": "+p.says(at)))
		}
	}
}

// says returns the values of a point in words.
func (p *Plot) says(at XY) string {
	y := value(at.Y)
	if p.Share {
		y = value(at.Y*100) + " %"
	}
	return fmt.Sprintf("%s %s, %s %s", p.X, value(at.X), p.Y, y)
}

// frame returns the ends of the axes. It fails for a value that is not a
// number.
func (p *Plot) frame() (frame, error) {
	f := frame{height: height}
	see := func(at XY) error {
		for _, v := range []float64{at.X, at.Y} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("report: plot %q cannot show %v", p.Name, v)
			}
		}
		f.maxX, f.maxY = max(f.maxX, at.X), max(f.maxY, at.Y)
		return nil
	}
	for _, l := range p.Lines {
		for _, at := range l.At {
			if err := see(at); err != nil {
				return f, err
			}
		}
	}
	for _, pt := range p.Points {
		if err := see(pt.At); err != nil {
			return f, err
		}
	}
	if len(p.Points) > 0 {
		f.maxX, f.maxY = f.maxX*1.05, f.maxY*1.05 // the frame would cut a point on it in two
	}
	if p.Share {
		f.maxY = max(f.maxY, 0.01) // keeps a line of zeros at the bottom
	}
	f.maxX, f.maxY = ceiling(f.maxX), ceiling(f.maxY)
	return f, nil
}

func (p *Plot) shade(b *strings.Builder, f frame) {
	at := p.Lines[0].At
	if len(at) == 0 {
		return
	}
	line := strings.TrimPrefix(path(f, at), "M")
	from, to := num(f.x(at[0].X)), num(f.x(at[len(at)-1].X))
	fmt.Fprintf(b, `<path class="safe" d="M%s %sL%sL%s %sZ"/>`, from, num(f.y(0)), line, to, num(f.y(0)))
	fmt.Fprintf(b, `<path class="unsafe" d="M%s %sL%sL%s %sZ"/>`+"\n", from, num(topRoom), line, to,
		num(topRoom))
}

func (p *Plot) axes(b *strings.Builder, f frame, s size) {
	left, bottom := num(f.left), num(f.y(0))
	for _, v := range ticks(f.maxY) {
		y := f.y(v)
		fmt.Fprintf(b, `<path class="grid" d="M%s %sH%s"/>`, left, num(y), num(f.right()))
		text := value(v)
		if p.Share {
			text = value(v*100) + " %"
		}
		label(b, f.left-8, y+4, `text-anchor="end" class="soft"`, text)
	}
	for n, v := range ticks(f.maxX) {
		x := f.x(v)
		fmt.Fprintf(b, `<path class="axis" d="M%s %sv5"/>`, num(x), bottom)
		if s.narrow() && n%2 == 1 {
			continue // no room for its number
		}
		label(b, x, f.y(0)+19, `text-anchor="middle" class="soft"`, value(v))
	}
	fmt.Fprintf(b, `<path class="axis" d="M%s %sV%sH%s"/>`+"\n", left, num(topRoom), bottom, num(f.right()))
	label(b, (f.left+f.right())/2, f.y(0)+37, `text-anchor="middle"`, p.X)
	middle := (topRoom + f.y(0)) / 2
	label(b, 14, middle, fmt.Sprintf(`text-anchor="middle" transform="rotate(-90 14 %s)"`, num(middle)), p.Y)
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

func path(f frame, at []XY) string {
	var b strings.Builder
	for n, p := range at {
		fmt.Fprintf(&b, "%c%s %s", "ML"[min(n, 1)], num(f.x(p.X)), num(f.y(p.Y)))
	}
	return b.String()
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
