package bench

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Panel is one group of bars in the picture of a scenario: one column of its
// table, one bar for each adapter.
type Panel struct {
	Metric string // name of the metric
	Ratio  bool   // draws the ratios of the metric instead of its figures
	Says   string // what the bars show, and whether a short or a long one is better
}

// Picture draws the panels of a scenario as an SVG image, from the cells of the
// table that [Report.Table] makes. The label at a bar is the text of its cell.
// The image has a light and a dark form; the reader's system chooses.
func Picture(s Scenario, table [][]string) (string, error) {
	var b, body strings.Builder
	y := 8.0
	for _, p := range s.Picture {
		bars, err := p.bars(s, table)
		if err != nil {
			return "", fmt.Errorf("drawing %s: %w", s.Name, err)
		}
		y = drawPanel(&body, p, bars, y) + 14
	}
	y = drawLegend(&body, table, y)
	size := fmt.Sprintf(`width="%s" height="%s"`, coordinate(picWidth), coordinate(y))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %s %s" %s>`+"\n",
		coordinate(picWidth), coordinate(y), size)
	fmt.Fprintf(&b, "<title>%s</title>\n%s", escape(s.Name+": "+s.Title), picStyle)
	fmt.Fprintf(&b, `<rect class="paper" %s/>`+"\n", size)
	return b.String() + body.String() + "</svg>\n", nil
}

// bar is one row of a panel.
type bar struct {
	name  string
	text  string // the cell of the table; empty where nothing was measured
	value float64
}

// bars reads the panel's column of the table.
func (p Panel) bars(s Scenario, table [][]string) ([]bar, error) {
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == p.Metric })
	if i < 0 || len(table) < 2 {
		return nil, fmt.Errorf("no metric %q, or no line in the table", p.Metric)
	}
	column := slices.Index(table[0], s.Metrics[i].Head)
	if column >= 0 && p.Ratio {
		column++
	}
	if column < 0 || column >= len(table[0]) || p.Ratio != (table[0][column] == ratioHead) {
		return nil, fmt.Errorf("the table has no column for metric %q (ratio: %v)", p.Metric, p.Ratio)
	}
	var all []bar
	for _, line := range table[1:] {
		b := bar{name: line[0], text: line[column]}
		if b.text != "" {
			v, err := strconv.ParseFloat(strings.ReplaceAll(b.text, ",", ""), 64)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("%s of %q is %q: a bar needs a number from 0 on", p.Metric, b.name,
					b.text)
			}
			b.value = v
		}
		all = append(all, b)
	}
	return all, nil
}

// Sizes of a picture, in pixels.
const (
	picWidth  = 760.0
	barsLeft  = 190.0 // where the axis begins; names of adapters are to the left
	barsRight = 680.0 // where the axis ends; the label of the longest bar is to the right
	rowHeight = 21.0
	barHeight = 13.0
)

// logFrom is the ratio above which a panel of ratios has a logarithmic axis.
const logFrom = 10

// axis maps values to x coordinates.
type axis struct {
	from, to float64
	log      bool
	base     float64 // where bars begin: 1 on a logarithmic axis, otherwise 0
}

// newAxis returns the axis on which all bars have room. Ratios that are all
// below logFrom, and figures that are no ratios, have a linear axis from 0.
func newAxis(ratio bool, bars []bar) axis {
	least, most := 1.0, 0.0
	for _, b := range bars {
		most = max(most, b.value)
		if b.value > 0 {
			least = min(least, b.value)
		}
	}
	if ratio {
		most = max(most, 1)
	}
	if ratio && most > logFrom {
		return axis{from: decade(least, math.Floor), to: decade(most, math.Ceil), log: true, base: 1}
	}
	if most == 0 {
		most = 1
	}
	step := stride(most)
	return axis{to: math.Ceil(most/step-1e-9) * step}
}

func decade(v float64, round func(float64) float64) float64 {
	return math.Pow(10, round(math.Log10(v)))
}

// stride is the distance of the ticks on a linear axis: 1, 2 or 5 times a power
// of ten, so that the axis has four to eight of them.
func stride(most float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(most/8)))
	for _, m := range []float64{1, 2, 5} {
		if most/(m*power) <= 8 {
			return m * power
		}
	}
	return 10 * power
}

func (a axis) ticks() (all []float64) {
	if a.log {
		for v := a.from; v <= a.to*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for n := 0.0; n*stride(a.to) <= a.to*1.001; n++ {
		all = append(all, n*stride(a.to))
	}
	return all
}

// x is the coordinate of a value. On a logarithmic axis a value below its
// beginning, as a ratio that was rounded to 0, is drawn at its beginning.
func (a axis) x(v float64) float64 {
	part := (v - a.from) / (a.to - a.from)
	if a.log {
		part = math.Log(max(v, a.from)/a.from) / math.Log(a.to/a.from)
	}
	return barsLeft + part*(barsRight-barsLeft)
}

// drawPanel draws below y and returns where it ended.
func drawPanel(b *strings.Builder, p Panel, bars []bar, y float64) float64 {
	a := newAxis(p.Ratio, bars)
	says := p.Says
	if a.log {
		says += " (logarithmic axis)"
	}
	words(b, 12, y+14, `class="head"`, says)
	top := y + 26
	bottom := top + rowHeight*float64(len(bars))
	for _, v := range a.ticks() {
		class := "grid"
		if p.Ratio && isOne(v) {
			class = "one"
		}
		drawTick(b, class, a.x(v), top, bottom, tickText(v))
	}
	if p.Ratio && !slices.ContainsFunc(a.ticks(), isOne) {
		drawTick(b, "one", a.x(1), top, bottom, "1")
	}
	for i, row := range bars {
		drawBar(b, a, row, top+rowHeight*float64(i))
	}
	return bottom + 24
}

func isOne(ratio float64) bool { return math.Abs(ratio-1) < 1e-9 }

// drawTick draws a line at x from top to bottom, and its value below it.
func drawTick(b *strings.Builder, class string, x, top, bottom float64, value string) {
	fmt.Fprintf(b, `<path class="%s" d="M%s %sV%s"/>`+"\n",
		class, coordinate(x), coordinate(top), coordinate(bottom))
	words(b, x, bottom+16, `class="soft" text-anchor="middle"`, value)
}

func drawBar(b *strings.Builder, a axis, row bar, y float64) {
	words(b, barsLeft-8, y+14.5, `text-anchor="end"`, row.name)
	if row.text == "" {
		words(b, barsLeft+6, y+14.5, `class="soft"`, "not measured")
		return
	}
	from, to := a.x(a.base), a.x(row.value)
	left, right := min(from, to), max(from, to)
	rectangle(b, sideOf(row.name), left, y+(rowHeight-barHeight)/2, max(right-left, 1))
	words(b, right+6, y+14.5, `class="figure"`, row.text)
}

// rectangle draws a bar, or a sample of its colour in the legend.
func rectangle(b *strings.Builder, class string, x, y, width float64) {
	fmt.Fprintf(b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n",
		class, coordinate(x), coordinate(y), coordinate(width), coordinate(barHeight))
}

// The sides that a picture tells apart by colour.
const (
	sideOurs  = "ours"
	sidePlain = "plain" // the bare commands
	sideOther = "other"
)

// sideOf says whose adapter that is, by its name.
func sideOf(adapter string) string {
	switch {
	case strings.HasPrefix(adapter, "bare"):
		return sidePlain
	case strings.HasPrefix(adapter, "modern"), strings.HasPrefix(adapter, "legacy"):
		return sideOurs
	}
	return sideOther
}

// drawLegend names the colours of the adapters in the table, and returns where
// the picture ends.
func drawLegend(b *strings.Builder, table [][]string, y float64) float64 {
	x := barsLeft
	sides := [][2]string{{sideOurs, "getsetlock"}, {sidePlain, "bare commands"}, {sideOther, "other clients"}}
	for _, side := range sides {
		if !slices.ContainsFunc(table[1:], func(line []string) bool { return sideOf(line[0]) == side[0] }) {
			continue
		}
		rectangle(b, side[0], x, y, barHeight)
		words(b, x+19, y+11, `class="soft"`, side[1])
		x += 140
	}
	return y + 24
}

// picStyle has each colour twice: a reader whose system is dark gets the second
// one. Programs that do not know media queries show the light form.
const picStyle = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; fill: #1c2127; }
.head { font-weight: 600; }
.soft { fill: #5b6570; font-size: 12px; }
.figure { font-variant-numeric: tabular-nums; font-size: 12px; }
.paper { fill: #ffffff; }
.grid { stroke: #d5dae0; stroke-width: 1; fill: none; }
.one { stroke: #1c2127; stroke-width: 1.5; stroke-dasharray: 4 3; fill: none; }
.ours { fill: #0b5cad; }
.plain { fill: #5b6570; }
.other { fill: #b9a26a; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ed; }
.soft { fill: #9aa5b1; }
.paper { fill: #15191e; }
.grid { stroke: #3a424b; }
.one { stroke: #e6e9ed; }
.ours { fill: #7ab8ff; }
.plain { fill: #9aa5b1; }
.other { fill: #8a7440; }
}
</style>
`

func words(b *strings.Builder, x, y float64, attributes, text string) {
	fmt.Fprintf(b, `<text x="%s" y="%s" %s>%s</text>`+"\n",
		coordinate(x), coordinate(y), attributes, escape(text))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder has no errors
	return b.String()
}

// coordinate has one decimal, which is finer than a screen shows.
func coordinate(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// tickText is a value at a tick, in groups of three digits from a thousand on.
func tickText(v float64) string {
	if v >= 1000 {
		return figure(math.Round(v))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
