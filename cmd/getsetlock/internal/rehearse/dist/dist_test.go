// SPDX-License-Identifier: Apache-2.0

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

func TestFileHoldsTheOnlyValuesDrawn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "holds.txt")
	if err := os.WriteFile(name, []byte("1s\n\n250ms\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Parse("file:" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all []time.Duration
	for r := rand.New(rand.NewPCG(1, 2)); len(all) < 100; {
		all = append(all, d.Draw(r))
	}
	slices.Sort(all)
	all = slices.Compact(all)
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
		"5":                    `"5": it must be a duration or a distribution: 5s`,
		"-1s":                  "-1s: it must be at least 0",
		"file:" + empty:        "at least one duration",
		"file:" + wrong:        "line 2",
		"file:/nowhere/at/all": "no such file",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want an error with %q", text, err, want)
		}
	}
}

func TestFlagShowsWhatWasWritten(t *testing.T) {
	for _, text := range []string{"100us..400us", "exp:10s"} {
		var d Dist
		if err := d.Set(text); err != nil || d.String() != text {
			t.Errorf("%q came back as %q, %v", text, d, err)
		}
	}
	if s := (Dist{}).String(); s != "0s" {
		t.Errorf("the zero Dist reads %q", s)
	}
}
