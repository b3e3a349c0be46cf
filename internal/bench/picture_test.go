package bench

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// drawn is what a test reads from a picture: all texts, and the bars with the
// label to the right of each.
type drawn struct {
	texts []string
	bars  []drawnBar
}

type drawnBar struct {
	class         string
	x, width      float64
	adapter, text string
}

func readPicture(t *testing.T, svg string) drawn {
	t.Helper()
	var d drawn
	in := xml.NewDecoder(strings.NewReader(svg))
	class := ""
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			class = attribute(e, "class")
			if e.Name.Local == "rect" && attribute(e, "x") != "" && len(d.texts) > 0 {
				d.bars = append(d.bars, drawnBar{
					class: class, x: number(t, e, "x"), width: number(t, e, "width"),
					adapter: d.texts[len(d.texts)-1],
				})
			}
		case xml.CharData:
			text := strings.TrimSpace(string(e))
			if class == "figure" && text != "" {
				d.bars[len(d.bars)-1].text = text
			}
			if text != "" {
				d.texts = append(d.texts, text)
			}
		case xml.EndElement:
			class = ""
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	i := slices.IndexFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == name })
	if i < 0 {
		return ""
	}
	return e.Attr[i].Value
}

func number(t *testing.T, e xml.StartElement, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(attribute(e, name), 64)
	if err != nil {
		t.Fatalf("%s of <%s>: %v", name, e.Name.Local, err)
	}
	return v
}

// drawable is a scenario with one figure and its ratio.
func drawable(panels ...Panel) Scenario {
	metrics := []Metric{{"x", "X", true}, {"y", "Y", false}}
	return Scenario{Name: "s/1", Title: "a < b", Metrics: metrics, Picture: panels}
}

func TestPictureShowsTheFiguresOfItsTable(t *testing.T) {
	table := [][]string{
		{"", "X", "×", "Y"},
		{"bare", "10", "1.00", "1,500"}, {"modern", "5", "0.50", "3,000"}, {"peer & co", "40", "4.00", ""},
	}
	svg, err := Picture(drawable(Panel{"x", true, "ratio"}, Panel{"y", false, "figure"}), table)
	if err != nil {
		t.Fatal(err)
	}
	d := readPicture(t, svg)
	var got []string
	for _, b := range d.bars {
		if b.text != "" {
			got = append(got, fmt.Sprintf("%s %s %s", b.class, b.adapter, b.text))
		}
	}
	want := []string{
		"plain bare 1.00", "ours modern 0.50", "other peer & co 4.00", "plain bare 1,500",
		"ours modern 3,000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("bars %q; want %q", got, want)
	}
	for i, ratio := range []float64{1, 0.5, 4} {
		if b := d.bars[i]; b.x != barsLeft || math.Abs(b.width-ratio*d.bars[0].width) > 0.2 {
			t.Errorf("the bar of %s begins at %v and is %v wide; bare's is %v",
				b.adapter, b.x, b.width, d.bars[0].width)
		}
	}
	if !slices.Contains(d.texts, "not measured") || !slices.Contains(d.texts, "s/1: a < b") {
		t.Errorf("texts %q", d.texts)
	}
	if !strings.Contains(svg, "prefers-color-scheme: dark") {
		t.Error("the picture has no dark form")
	}
}

// A panel with a ratio above logFrom has a logarithmic axis. Bars begin at 1
// there, and a ratio below 1 goes to the left.
func TestPictureOfLargeRatiosIsLogarithmic(t *testing.T) {
	table := [][]string{
		{"", "X", "×"}, {"bare", "10", "1.00"}, {"a", "1,000", "100"}, {"b", "1", "0.10"}, {"c", "0", "0.00"},
	}
	svg, err := Picture(drawable(Panel{"x", true, "ratio"}), table)
	if err != nil {
		t.Fatal(err)
	}
	d := readPicture(t, svg)
	one, more, less, none := d.bars[0], d.bars[1], d.bars[2], d.bars[3]
	ends := less.x + less.width
	if more.x != one.x || math.Abs(ends-one.x) > 0.2 || math.Abs(more.width-2*less.width) > 0.2 {
		t.Errorf("1 is at %v; 100 is drawn from %v, %v wide, and 0.1 from %v, %v wide",
			one.x, more.x, more.width, less.x, less.width)
	}
	if none.x != barsLeft || none.text != "0.00" {
		t.Errorf("a ratio rounded to 0 is drawn from %v with label %q", none.x, none.text)
	}
}

func TestPictureMarksTheRatioOfOne(t *testing.T) {
	for _, cell := range []string{"0.30", "1.12", "5.00", "5,929"} {
		table := [][]string{{"", "X", "×"}, {"bare", "1", "1.00"}, {"a", "2", cell}}
		svg, err := Picture(drawable(Panel{"x", true, "ratio"}), table)
		if err != nil {
			t.Fatal(err)
		}
		d := readPicture(t, svg)
		right := d.bars[0].x
		if cell != "5,929" {
			right += d.bars[0].width
		}
		want := fmt.Sprintf(`<path class="one" d="M%s `, coordinate(right))
		marks := strings.Count(svg, `class="one"`)
		if marks != 1 || !strings.Contains(svg, want) || !slices.Contains(d.texts, "1") {
			t.Errorf("beside %s the picture has no one mark %s…\n%s", cell, want, svg)
		}
	}
}

func TestPictureRefusesATableWithoutItsColumn(t *testing.T) {
	for _, c := range []struct {
		panel Panel
		table [][]string
	}{
		{Panel{"z", false, ""}, [][]string{{"", "X", "×"}, {"bare", "1", "1.00"}}},
		{Panel{"y", false, ""}, [][]string{{"", "X", "×"}, {"bare", "1", "1.00"}}},
		{Panel{"y", true, ""}, [][]string{{"", "Y", "Z"}, {"bare", "1", "1.00"}}},
		{Panel{"y", true, ""}, [][]string{{"", "Y"}, {"bare", "1"}}},
		{Panel{"y", false, ""}, [][]string{{"", "Y"}, {"bare", "many"}}},
		{Panel{"y", false, ""}, [][]string{{"", "Y"}, {"bare", "-1"}}},
		{Panel{"y", false, ""}, nil},
	} {
		if svg, err := Picture(drawable(c.panel), c.table); err == nil {
			t.Errorf("%+v of %q was drawn:\n%s", c.panel, c.table, svg)
		}
	}
}

const emptyPage = "# T\n\n<!-- bench: run -->\n<!-- end of bench -->\n\n" +
	"why\n\n<!-- bench: s/1 -->\n<!-- end of bench -->\nend\n"

func TestPageHoldsTablesAndPictures(t *testing.T) {
	s := drawable(Panel{"x", true, "ratio"})
	ratio := 2.0
	rep := &Report{Rows: []Row{{"s/1", "a", "x", 30, &ratio}}}
	page, err := Page(emptyPage, "today", rep, []Scenario{s})
	if err != nil {
		t.Fatal(err)
	}
	want := "# T\n\n<!-- bench: run -->\n\ntoday\n\n<!-- end of bench -->\n\nwhy\n\n<!-- bench: s/1 -->\n\n" +
		"![s/1: a < b](performance/s-1.svg)\n\n" +
		"|     |   X |    × |\n|-----|----:|-----:|\n| a   |  30 | 2.00 |\n\n<!-- end of bench -->\nend\n"
	if page != want {
		t.Errorf("page\n%s\nwant\n%s", page, want)
	}
	again, pictures, err := Pictures(page, []Scenario{s})
	if err != nil || again != page {
		t.Errorf("the pictures change the page to\n%s\n%v", again, err)
	}
	svg, err := Picture(s, rep.Table(s))
	if err != nil || len(pictures) != 1 || pictures["performance/s-1.svg"] != svg {
		t.Errorf("pictures %q, %v; want that of the report's table:\n%s", pictures, err, svg)
	}
}

func TestPageTakesNoFiguresOfTwoRuns(t *testing.T) {
	s, other := drawable(), drawable()
	other.Name = "s/2"
	rep := &Report{Rows: []Row{{"s/1", "a", "x", 30, nil}}}
	page, err := Page(emptyPage, "", rep, []Scenario{s})
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPage(page, []Scenario{other}); err == nil {
		t.Error("a scenario without a block was accepted")
	}
	page += blockBegin("s/2") + blockEnd
	err = CheckPage(page, []Scenario{other})
	if err == nil || !strings.Contains(err.Error(), `figures of "s/1"`) {
		t.Errorf("figures of another run were accepted: %v", err)
	}
	if err := CheckPage(page, []Scenario{s}); err != nil {
		t.Errorf("an empty block of another scenario is refused: %v", err)
	}
}

// docs/performance.md is checked here for the scenarios of this module, and in
// bench/peers for all of them.
func TestPicturesShowThePagesTables(t *testing.T) {
	const remedy = "run scripts/bench.sh -draw -doc docs/performance.md"
	docs := filepath.Join("..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	linked, pictures, err := Pictures(string(page), Scenarios(nil, nil))
	if err != nil || len(pictures) < 9 {
		t.Fatalf("%d pictures, %v", len(pictures), err)
	}
	if linked != string(page) {
		t.Errorf("docs/performance.md does not link each picture: %s", remedy)
	}
	for name, svg := range pictures {
		readPicture(t, svg)
		if old, err := os.ReadFile(filepath.Join(docs, name)); err != nil || string(old) != svg {
			t.Errorf("docs/%s is not the picture of its table (%v): %s", name, err, remedy)
		}
	}
}
