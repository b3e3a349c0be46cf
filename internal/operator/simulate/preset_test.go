// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/skew"
)

func TestDistributionIsReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"5s": "5s", "0": "0s", "5s..40s": "5s..40s", "90s": "1m30s", "exp:10s": "exp:10s",
		"lognormal:p50=5s,p99=40s": "lognormal:p50=5s,p99=40s", "1s,2s,2.5s": "1s,2s,2.5s",
	} {
		d, err := ParseDistribution("job", text)
		if err != nil || d.String() != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestBadDistributionNamesFieldAndBound(t *testing.T) {
	for text, want := range map[string]string{
		"": "a duration or a distribution", "5": "a duration or a distribution",
		"-1s":     "job -1s: must be at least 0",
		"40s..5s": "smaller end first", "5s..": "a duration", "exp:": "a duration", "exp:-1s": "at least 0",
		"gauss:5s": "a duration", "5s.40s": "5s..40s", "1s,2s.3s": "5s..40s",
		"lognormal:p50=5s": "lognormal:p50=5s,p99=40s", "lognormal:p99=5s,p50=1s": "lognormal:p50",
		"lognormal:p50=0s,p99=1s": "p50 of more than 0", "lognormal:p50=5s,p99=1s": "not less than the p50",
		"lognormal:p50=1ns,p99=1h": "times the p50", "1s,,2s": "a duration", "200000h": "at most",
		"1s,-1s": "at least 0",
	} {
		_, err := ParseDistribution("job", text)
		var parameter *skew.ParameterError
		if !errors.As(err, &parameter) || parameter.Field != "job" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDrawsOfTheUnboundedFormsAreCut(t *testing.T) {
	d, err := ParseDistribution("job", "lognormal:p50=1ms,p99=1m")
	if err != nil || d.Most() != sec {
		t.Fatal(d.Most(), err)
	}
	longest, random := time.Duration(0), rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		longest = max(longest, d.Draw(random))
	}
	if longest != sec {
		t.Errorf("drew up to %v", longest)
	}
}

// The test checks quantiles of 20,000 draws; the seed is fixed, so the figures
// are always the same.
func TestDistributionDrawsWhatItSays(t *testing.T) {
	for _, c := range []struct {
		text     string
		p50, p99 time.Duration
	}{
		{"5s", 5 * sec, 5 * sec}, {"10s..20s", 15 * sec, 19900 * ms}, {"exp:10s", 6931 * ms, 46052 * ms},
		{"lognormal:p50=5s,p99=40s", 5 * sec, 40 * sec}, {"1s,1s,3s", sec, 3 * sec},
	} {
		d, err := ParseDistribution("job", c.text)
		if err != nil {
			t.Fatal(err)
		}
		random, draws := rand.New(rand.NewPCG(1, 1)), make([]time.Duration, 20_000)
		for i := range draws {
			draws[i] = time.Duration(d.draw(random))
		}
		slices.Sort(draws)
		near := func(got, want time.Duration) bool { return (got - want).Abs() <= want/20 }
		if !near(draws[10_000], c.p50) || !near(draws[19_800], c.p99) {
			t.Errorf("%s: p50 %v, p99 %v", c.text, draws[10_000], draws[19_800])
		}
		if l := d.longest(); l.Bounded && l.Bound < draws[19_999] {
			t.Errorf("%s: %v drawn beyond %v", c.text, draws[19_999], l)
		}
	}
}

func TestEveryPresetIsFoundAndPossible(t *testing.T) {
	want := "ptp chrony ntpd ntpd-step timesyncd free-run slewing bad-hypervisor boot leap vm-pause jvm-gc human jepsen server-step server-slew fail-over"
	if got := strings.Join(PresetNames(), " "); got != want {
		t.Errorf("got %s", got)
	}
	for _, p := range Presets() {
		found, err := Lookup(strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_")))
		if err != nil || found.Name != p.Name || p.Shape == "" || p.Source == "" {
			t.Errorf("%s: %+v, %v", p.Name, found, err)
		}
	}
	if p, err := Lookup("free-run:7"); err != nil || p.Clocks.Age != 7*day {
		t.Errorf("a week: %+v, %v", p, err)
	}
	for _, name := range []string{"ntp", "", "free-run:", "free-run:-1", "free-run:NaN", "ptp:3"} {
		var parameter *skew.ParameterError
		if _, err := Lookup(name); !errors.As(err, &parameter) || parameter.Field != "preset" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPresetSpreadCoversStepsAndDrift(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"ptp": 100 * time.Microsecond, "timesyncd": 800 * ms, "free-run": 2 * 2592 * ms, "leap": sec,
		"boot":  sec,
		"human": 2 * day, "jepsen": 576 * sec, "vm-pause": 0, "slewing": 2 * sec,
	} {
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Clocks.Spread(0); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A clock that is slewed to the right time does not drift away, however long it
// runs.
func TestSlewingClocksStayWithinTheirErrors(t *testing.T) {
	p, err := Lookup("slewing")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Clocks.Spread(1000 * day); got != 2*sec {
		t.Errorf("in 1000 days they come %v apart", got)
	}
	s := plainFleet()
	s.Clocks = p.Clocks
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	c := &m.clients[0]
	right := 0
	const days = 400
	for at := m.now; at < m.now+int64(days*day); at += int64(10 * sec) {
		off := time.Duration(m.read(c, at) - at)
		if off.Abs() > sec {
			t.Fatalf("after %v it is %v off", time.Duration(at-m.now), off)
		}
		if off.Abs() < time.Microsecond {
			right++
		}
	}
	// An error lasts until its slew ends: about two minutes of sixty.
	if all := days * 24 * 360; right < all*8/10 {
		t.Errorf("right in %d of %d looks", right, all)
	}
}

// A run of months asks about no more than a day of drift, if SetEvery says so.
func TestClocksSetDailyDriftForOneDay(t *testing.T) {
	s := plainFleet()
	s.Clocks, s.SetEvery = Clocks{PPM: 30, Age: day}, day
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	bound := s.Clocks.Spread(day) / 2
	for i := range m.clients {
		c, most := &m.clients[i], time.Duration(0)
		for at := m.now; at < m.now+int64(90*day); at += int64(time.Hour) {
			most = max(most, time.Duration(m.read(c, at)-at).Abs())
		}
		if drifts := time.Duration(math.Abs(c.clock.own) * float64(2*day)); most > bound ||
			most < drifts*9/10 {
			t.Errorf("client %d came %v off, at a rate that gains %v in two days, within %v", i, most, drifts,
				bound)
		}
	}
}

// What befalls a clock once befalls it once after each time that it is set.
func TestClocksSetDailyAreCorrectedDaily(t *testing.T) {
	for name, off := range map[string]time.Duration{"boot": 0, "leap": -sec, "bad-hypervisor": 16270 * ms} {
		p, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		s := plainFleet()
		s.Clocks, s.SetEvery = p.Clocks, day
		s.Clocks.Share = 0
		m, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		c := &m.clients[0]
		for n := range int64(3) {
			at := m.now + n*int64(day)
			before := m.read(c, at+int64(time.Minute)) - at - int64(time.Minute)
			at += int64(21 * time.Minute)
			after := time.Duration(m.read(c, at) - at)
			if name != "boot" && before != 0 || name == "boot" && before == 0 ||
				(after.Abs()-off.Abs()).Abs() > ms {
				t.Errorf("%s, day %d: %v off, and after a while %v", name, n, time.Duration(before), after)
			}
		}
	}
}

// The page's table comes from the data, so that neither can change alone.
func TestDocumentationListsEveryPreset(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Presets() {
		ours := p.Ours
		if ours == "" {
			ours = "–"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", p.Name, p.Shape, p.Source, ours)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/guide/clocks.md lacks the row\n%s", row)
		}
	}
}

// FuzzDistribution checks that what is read is written in a form that reads
// back as the same.
func FuzzDistribution(f *testing.F) {
	for _, text := range []string{"5s", "5s..40s", "exp:10s", "lognormal:p50=5s,p99=40s", "1s,2s", "1h..",
		"lognormal:p50=,p99="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDistribution("job", text)
		if err != nil {
			return
		}
		back, err := ParseDistribution("job", d.String())
		if err != nil || back.String() != d.String() {
			t.Fatalf("%q is written as %q and read as %q, %v", text, d, back, err)
		}
		random := rand.New(rand.NewPCG(1, 1))
		for range 20 {
			if span := d.draw(random); span < 0 {
				t.Fatalf("%q draws %d", text, span)
			}
		}
	})
}
