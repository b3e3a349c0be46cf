package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestGapsRunFromAReleaseToTheNextAcquisition(t *testing.T) {
	const us = 1000
	between, overlaps := gaps([]span{
		{Key: 0, Acquired: 500 * us, Released: 600 * us},
		{Key: 1, Acquired: 100 * us, Released: 900 * us},
		{Key: 0, Acquired: 100 * us, Released: 200 * us},
		{Key: 0, Acquired: 610 * us, Released: 700 * us},
		{Key: 0, Acquired: 699 * us, Released: 800 * us}, // overlaps the span before
	})
	if want := (ticks{30_000, 1_000}); !slices.Equal(between, want) || overlaps != 1 {
		t.Errorf("gaps %v and %d overlaps; want %v and 1", between, overlaps, want)
	}
}

func TestJainIsOneForEqualAndOneNthForOneWinner(t *testing.T) {
	for _, c := range []struct {
		shares []int
		want   float64
	}{{[]int{7, 7, 7, 7}, 1}, {[]int{9, 0, 0, 0}, 0.25}, {[]int{0, 0}, 0}, {nil, 0}} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("jain(%v) = %v; want %v", c.shares, got, c.want)
		}
	}
}

func TestQuantilesOfFewAndNoValues(t *testing.T) {
	var d ticks
	for _, v := range []time.Duration{30, 10, 20, -5} {
		d.add(v * time.Microsecond)
	}
	if got := d.quantile(0); got != 0 {
		t.Errorf("a negative duration is kept as %v", got)
	}
	if got := d.quantile(1); got != 30*time.Microsecond {
		t.Errorf("longest %v", got)
	}
	if ticks(nil).quantile(0.5) != 0 || !math.IsNaN(median(nil)) || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error("quantiles of none, or of an even number")
	}
}

// fake returns a scenario with invented figures.
func fake(order *[]string, figures map[string][]float64) Scenario {
	round := map[string]int{}
	return Scenario{
		Name: "s", Title: "t", Adapters: []string{"bare", "a", "b"}, Rounds: 3,
		Metrics: []Metric{{"x", "X", true}},
		Measure: func(_ context.Context, _ *Runner, a Adapter) (Figures, error) {
			*order = append(*order, a.Name)
			v := figures[a.Name][round[a.Name]]
			round[a.Name]++
			if v < 0 {
				return nil, errors.New("broken")
			}
			return Figures{"x": v}, nil
		},
	}
}

func TestRoundsRotateAdaptersAndRatiosStayWithinThem(t *testing.T) {
	w := redistest.New(t)
	w.Info(nil) // it counts no commands
	var order []string
	s := fake(&order, map[string][]float64{"bare": {1, 10, 100}, "a": {2, 30, 200}, "b": {5, -1, 500}})
	r := Runner{Adapters: []Adapter{{Name: "bare"}, {Name: "a"}, {Name: "b"}, {Name: "stranger"}},
		Scenarios: []Scenario{s}, Addr: w.Addr()}
	rep, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, " "), "bare a b a b bare b bare a"; got != want {
		t.Errorf("order %s; want %s", got, want)
	}
	var text []string
	for _, line := range rep.Table(s) {
		text = append(text, strings.Join(line, "|"))
	}
	// a's values are 2, 3 and 2 times bare's in each round, so the median ratio
	// is 2. The ratio of the medians would be 3.
	if want := []string{"|X|×", "bare|10|1.00", "a|30|2.00", "b|252|5.00"}; !slices.Equal(text, want) {
		t.Errorf("table %q; want %q", text, want)
	}
	if want := []string{"s (b): broken"}; !slices.Equal(rep.Failures, want) {
		t.Errorf("failures %q; want %q", rep.Failures, want)
	}
}

func TestFiguresAreShownWithThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01234: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234567.8: "1,234,568", 7: "7",
		-1234: "-1,234"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %q; want %q", v, got, want)
		}
	}
}

func TestPickFindsScenariosByNameAndByGroup(t *testing.T) {
	some, err := Pick(Scenarios(nil, nil), "keys", "killed")
	if got := strings.Join(names(some), " "); err != nil || got != "keys/64 keys/1000 killed" {
		t.Errorf("picked %s, %v", got, err)
	}
	if _, err := Pick(Scenarios(nil, nil), "key"); err == nil {
		t.Error("half a name was accepted")
	}
}

func TestPickAdaptersAlwaysAddsBare(t *testing.T) {
	some, err := PickAdapters(Own(), "modern, fair; modern")
	var got []string
	for _, a := range some {
		got = append(got, a.Name)
	}
	if want := []string{"bare", "modern", "modern, fair"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("picked %q, %v; want %q", got, err, want)
	}
	if _, err := PickAdapters(Own(), "modern,"); err == nil {
		t.Error("a name that no adapter has was accepted")
	}
}

func TestScenariosNameOnlyAdaptersThatExist(t *testing.T) {
	for _, s := range Scenarios(nil, nil) {
		for _, name := range s.Adapters {
			if _, err := find(Own(), name); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
			if _, err := find(Own(), s.base(name)); err != nil {
				t.Errorf("%s, base of %s: %v", s.Name, name, err)
			}
		}
	}
}

func TestChildEndsWhenItsInputEnds(t *testing.T) {
	w := redistest.New(t)
	in, feed := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Child(Own(), in, said)
		said.Close()
		ended <- err
	}()
	io.WriteString(feed, `{"Kind":"hold","Adapter":"modern","Addr":"`+w.Addr()+
		`","Prefix":"p:","Keys":2,"TTL":10000000000}`+"\n")
	line := make([]byte, 100)
	n, _ := out.Read(line)
	if string(line[:n]) != "{\"Ready\":true}\n" {
		t.Fatalf("it said %q", line[:n])
	}
	feed.Close()
	rest, _ := io.ReadAll(out)
	if err := <-ended; err != nil || !bytes.Contains(rest, []byte("context canceled")) {
		t.Errorf("it ended with %v and said %q", err, rest)
	}
}

func TestChildRefusesInputThatIsNoSpec(t *testing.T) {
	for _, in := range []string{"", "hello\n", "{}\n"} {
		if err := Child(Own(), strings.NewReader(in), io.Discard); !errors.Is(err, ErrWrongOrder) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
