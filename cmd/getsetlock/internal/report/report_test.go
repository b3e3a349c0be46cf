// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func sample() Page {
	return Page{
		Title: "title <b>", Verdict: "YES: it can.", Bad: true, Words: []string{"why & how"},
		Made: time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC),
		Causes: []Cause{
			{Culprit: "stock-3 <i>", Says: []string{"ahead"}, Do: []string{"NTP"}, Bad: true,
				Findings: []string{"late"}}},
		Sections: []Section{
			{Title: "timeline", Figure: &Timeline{
				Name: "line", X: "s",
				Rows: []Row{{"old1", []Span{{From: 0, To: 2}}},
					{"old2", []Span{{From: 1, To: 3, Bad: true}}}},
				Marks: []Mark{{0, 0, 1, "", "says", false}, {0, 0, 2, "", "says", true},
					{1, 1, 3, "<i>", "says <x>", false}},
			}, Table: Table{Columns: []string{"x", "y"}, Rows: [][]string{{"0", "1"}}}},
			{Title: "findings", Table: Table{Columns: []string{"client", "late"},
				Rows: [][]string{{"old1", "three <x>"}}, Text: 1, Bad: []int{0}}},
			{Title: "ranges", Figure: &Ranges{
				Name: "ranges", X: "ms",
				Rows: []Range{{Name: "one <i>", Low: -3, High: 5},
					{Name: "two", Low: -1, OpenHigh: true, Alarm: true}},
			}},
		},
		Foot: "made by hand",
	}
}

func TestPageIsWellFormedAndLoadsNothing(t *testing.T) {
	var b strings.Builder
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, foreign := range []string{"http://", "https://", "<script", "@import", "url(", "<i>", "<x>"} {
		if text := strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, ""); strings.Contains(text,
			foreign) {
			t.Errorf("the page contains %s", foreign)
		}
	}
	if !strings.Contains(page, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; `) {
		t.Error("the page does not forbid itself the network")
	}
	if n := strings.Count(page, `<svg xmlns`); n != 4 { // each for a desk and for a phone
		t.Errorf("%d drawings", n)
	}
	for rest := page; strings.Contains(rest, "<svg"); {
		_, rest, _ = strings.Cut(rest, "<svg")
		svg, after, _ := strings.Cut(rest, "</svg>")
		rest = after
		dec := xml.NewDecoder(strings.NewReader("<svg" + svg + "</svg>"))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a drawing is not well formed: %v", err)
			}
		}
	}
}

// A place that three hold is shaded once: twice would be too dark for labels.
func TestShadesOfATimelineCoverNoOther(t *testing.T) {
	tl := &Timeline{Rows: []Row{{"a", []Span{{From: 0, To: 4}, {From: 8, To: 9}}},
		{"b", []Span{{From: 1, To: 9}}},
		{"c", []Span{{From: 2, To: 5}}}}}
	both := tl.together()
	if len(both) != 2 || both[0] != (Span{From: 1, To: 5}) || both[1] != (Span{From: 8, To: 9}) {
		t.Errorf("%v", both)
	}
}

func TestFiguresRefuseWhatIsNoNumber(t *testing.T) {
	for name, f := range map[string]Figure{
		"infinite": &Timeline{Rows: []Row{{}}, Marks: []Mark{{At: math.Inf(1)}}},
		"negative": &Timeline{Rows: []Row{{Holds: []Span{{From: -1}}}}},
		"span":     &Timeline{Rows: []Row{{Holds: []Span{{To: math.NaN()}}}}},
		"row":      &Timeline{Marks: []Mark{{Row: 1}}},
		"range":    &Ranges{Rows: []Range{{Low: math.NaN()}}},
		"turned":   &Ranges{Rows: []Range{{Low: 2, High: 1}}},
	} {
		var b strings.Builder
		if err := (Page{Sections: []Section{{Figure: f}}}).Write(&b); err == nil {
			t.Errorf("%s was drawn", name)
		}
	}
	if err := (Page{Sections: []Section{
		{Table: Table{Columns: []string{"a"}, Rows: [][]string{{"1", "2"}}}}}}).Write(
		io.Discard); err == nil {
		t.Error("a row wider than its table was written")
	}
}

// A long table is folded, and says what is in it.
func TestLongTablesAreFolded(t *testing.T) {
	long := Table{Columns: []string{"a"}, Bad: []int{3}}
	for n := range mostUnfolded + 1 {
		for folds, text := range map[bool]string{false: "</table></div>\n</section>",
			true: "<summary>Table of 16 rows, 1 of them red</summary>"} {
			var b strings.Builder
			if err := (Page{Sections: []Section{{Table: long}}}).Write(&b); err != nil {
				t.Fatal(err)
			}
			if n > 0 && strings.Contains(b.String(), text) != (folds == (n > mostUnfolded)) {
				t.Errorf("%d rows: %q", n, text)
			}
		}
		long.Rows = append(long.Rows, []string{"1"})
	}
}

func TestUnitsOfTimeFitTheAxis(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Second: "seconds", 3 * time.Minute: "minutes",
		3 * time.Hour: "hours", 72 * time.Hour: "days"} {
		if unit, name := Unit(d); name != want || d < unit || d > 200*unit {
			t.Errorf("%v: %v %s", d, unit, name)
		}
	}
}

func TestTicksAreFourToTenAndReachTheEnd(t *testing.T) {
	for _, v := range []float64{1e-6, .009, .1, .3, 1, 7, 10, 40, 86400, 3.1e9} {
		end := ceiling(v)
		if n := len(ticks(end)); end < v*(1-.01) || end > v*1.25+1e-12 || n < 5 || n > 11 {
			t.Errorf("%v: %d ticks up to %v", v, n, end)
		}
	}
}

func TestSaveReplacesWholeFilesOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "r.html")
	if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := Page{Sections: []Section{{Figure: &Timeline{Marks: []Mark{{Row: 1}}}}}}
	if Save(name, bad) == nil {
		t.Error("a page that cannot be drawn was saved")
	}
	alone(t, dir, "before")
	if err := Save(name, sample()); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(name); !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("%d bytes, not a whole page", len(text))
	}
	if at, _ := os.Stat(name); at.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", at.Mode())
	}
	if err := Save(dir, sample()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("over a directory: %v", err)
	}
}

// alone checks that a directory has one file, with this content.
func alone(t *testing.T, dir, words string) {
	t.Helper()
	files, _ := os.ReadDir(dir)
	if len(files) != 1 {
		t.Errorf("left: %v", files)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "r.html")); err != nil || string(text) != words {
		t.Errorf("%q, %v", text, err)
	}
}

func TestRangesHaveTicksOnBothSidesOfZero(t *testing.T) {
	r := &Ranges{X: "ms", Rows: []Range{
		{Name: "a", Low: -40, High: 90}, {Name: "b", Low: 10, OpenHigh: true}}}
	s, err := r.axis()
	if err != nil {
		t.Fatal(err)
	}
	at := s.ticks()
	if len(at) < 4 || at[0] >= 0 || at[len(at)-1] <= 0 {
		t.Errorf("%v", at)
	}
	var b strings.Builder
	if err := r.svg(&b, desk); err != nil || !strings.Contains(b.String(), `class="range open"`) {
		t.Errorf("%s %v", b.String(), err)
	}
}

func TestPageShowsDateCausesAndTable(t *testing.T) {
	var b strings.Builder
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		`<time datetime="2026-03-02T12:00:00Z">2 March 2026, 12:00 UTC</time>`,
		`<strong class="culprit">stock-3 &lt;i&gt;</strong>`, `<p class="do">NTP</p>`, `<li>late</li>`,
		`<tr class="bad"><td class="words">old1</td><td>three &lt;x&gt;</td></tr>`,
	} {
		if !strings.Contains(b.String(), says) {
			t.Errorf("no %s in\n%s", says, b.String())
		}
	}
	p := sample()
	p.Made = time.Time{}
	b.Reset()
	if err := p.Write(&b); err != nil || strings.Contains(b.String(), "<time") {
		t.Error("a page without a date shows one")
	}
}

// Red means bad, so nothing else is red.
func TestOnlyBadThingsAreRed(t *testing.T) {
	colour := regexp.MustCompile(`--(bar|edge|good|bad): #([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})`)
	all := colour.FindAllStringSubmatch(pageText, -1)
	if len(all) != 2*4 { // light and dark
		t.Fatalf("%d colours", len(all))
	}
	for _, c := range all {
		var part [3]float64
		for i := range part {
			n, _ := strconv.ParseUint(c[2+i], 16, 8)
			part[i] = float64(n)
		}
		// Much more red than green and blue, which differ little.
		red := part[0] > 1.4*max(part[1], part[2]) && part[0] > 120 &&
			math.Abs(part[1]-part[2]) < part[0]/3
		if red != (c[1] == "bad") {
			t.Errorf("red is %v of %s", red, c[0])
		}
	}
}

// A label that would cover another one goes below the line, and a third one is
// left out. Its dot stays.
func TestLabelsOfATimelineCoverNoOther(t *testing.T) {
	line := &Timeline{X: "s", Rows: []Row{{Name: "a"}}}
	for n := range 3 {
		line.Marks = append(line.Marks, Mark{At: 5 + float64(n)/100, Number: n + 1, Says: "x"})
	}
	line.Marks = append(line.Marks, Mark{At: 10, Number: 4, Says: "x"})
	var b strings.Builder
	if err := line.svg(&b, desk); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `class="said"`); n != 3 {
		t.Errorf("%d labels", n)
	}
	if n := strings.Count(b.String(), `class="dot"`); n != 4 {
		t.Errorf("%d dots", n)
	}
}

// Short waits of the few that had the lock look good. Those that gave up turn
// the bar red, and it has no end.
func TestWaitsOfThoseThatGaveUpHaveNoEnd(t *testing.T) {
	r := Waits([]Wait{
		{Name: "new", Half: time.Second, Most: 9 * time.Second, Longest: 10 * time.Second,
			Tried: 100, GaveUp: 1},
		{Name: "old", Half: 2 * time.Second, Most: -1, Longest: 3 * time.Second, Tried: 100, GaveUp: 40},
		{Name: "worse", Half: -1, Most: -1, Longest: 4 * time.Second, Tried: 100, GaveUp: 60},
	})
	want := []Range{
		{Name: "new", Low: 1, High: 9, Says: "1 of 100 attempts gave up"},
		{Name: "old", Low: 2, High: 3, OpenHigh: true, Alarm: true, Says: "40 of 100 attempts gave up"},
		{Name: "worse", Low: 4, High: 4, OpenHigh: true, Alarm: true, Says: "60 of 100 attempts gave up"},
	}
	if !slices.Equal(r.Rows, want) {
		t.Errorf("got  %+v\nwant %+v", r.Rows, want)
	}
	// Bars without an end need an axis too.
	r.Rows = r.Rows[1:]
	if s, err := r.axis(); err != nil || s.high < 4 || s.high > 5 {
		t.Errorf("axis %+v, %v", s, err)
	}
}
