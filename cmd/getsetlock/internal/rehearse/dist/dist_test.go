package dist

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func draws(t *testing.T, text string) []time.Duration {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 20_000)
	for i := range all {
		all[i] = d.Draw(r)
		if all[i] < 0 || all[i] > d.Most() {
			t.Fatalf("%s drew %v, outside of 0…%v", text, all[i], d.Most())
		}
	}
	slices.Sort(all)
	return all
}

func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("%s is %v, want about %v", what, got, want)
	}
}

func TestDrawsFollowTheirShape(t *testing.T) {
	if all := draws(t, "5s"); all[0] != 5*time.Second || all[len(all)-1] != 5*time.Second {
		t.Errorf("the constant 5s drew %v…%v", all[0], all[len(all)-1])
	}
	all := draws(t, "5s..40s")
	about(t, "least of 5s..40s", all[0], 5*time.Second)
	about(t, "median of 5s..40s", all[len(all)/2], 22500*time.Millisecond)
	about(t, "greatest of 5s..40s", all[len(all)-1], 40*time.Second)

	all = draws(t, "exp:10s")
	about(t, "median of exp:10s", all[len(all)/2], 6931*time.Millisecond)

	all = draws(t, "lognormal:p50=5s,p99=40s")
	about(t, "p50", all[len(all)/2], 5*time.Second)
	about(t, "p99", all[len(all)*99/100], 40*time.Second)
}

func TestFileHoldsTheOnlyValuesDrawn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "holds.txt")
	if err := os.WriteFile(name, []byte("1s\n\n250ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := slices.Compact(draws(t, "file:"+name))
	if want := []time.Duration{250 * time.Millisecond, time.Second}; !slices.Equal(all, want) {
		t.Errorf("drew %v, want %v", all, want)
	}
}

func TestParseErrorsNameTheFault(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	wrong := filepath.Join(t.TempDir(), "wrong")
	os.WriteFile(empty, []byte("\n"), 0o600)
	os.WriteFile(wrong, []byte("1s\nfive\n"), 0o600)
	for text, want := range map[string]string{
		"":                          "not a duration",
		"5":                         "not a duration",
		"-1s":                       "negative",
		"2s..1s":                    "greater than",
		"1s..x":                     `"x"`,
		"x..1s":                     `"x"`,
		"9000h":                     "a year",
		"exp:":                      "not a duration",
		"lognormal:p50=5s":          "p99",
		"lognormal:p50=0s,p99=1s":   "above zero",
		"lognormal:p50=1s,p90=2s":   "p90",
		"lognormal:p50=1s,p99=zero": `"zero"`,
		"file:" + empty:             "no durations",
		"file:" + wrong:             "line 2",
		"file:/nowhere/at/all":      "no such file",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want an error with %q", text, err, want)
		}
	}
}

func TestDistSurvivesFlagsAndJSON(t *testing.T) {
	for _, text := range []string{"1m30s", "5s..40s", "exp:10s", "lognormal:p50=5s,p99=40s"} {
		var d Dist
		if err := d.Set(text); err != nil {
			t.Fatal(err)
		}
		out, _ := d.MarshalText()
		if string(out) != text {
			t.Errorf("%q came back as %q", text, out)
		}
	}
	if s := (Dist{}).String(); s != "0s" {
		t.Errorf("the zero Dist reads %q", s)
	}
}

func FuzzParseReturnsADistributionOrAnError(f *testing.F) {
	for _, text := range []string{"5s", "5s..40s", "exp:10s", "lognormal:p50=5s,p99=40s", "..", "exp:9000h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "file:") {
			return
		}
		d, err := Parse(text)
		if err != nil {
			if d.draw != nil || d.most != 0 {
				t.Fatalf("%q: a distribution and the error %v", text, err)
			}
			return
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			if v := d.Draw(r); v < 0 || v > d.Most() {
				t.Fatalf("%q drew %v, outside of 0…%v", text, v, d.Most())
			}
		}
	})
}
