// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// a's values are 2, 3 and 2 times bare's in each round, so the median ratio is
// 2. The ratio of the medians would be 3. b failed in the second round.
const rounds = `round: 0
cpu: AMD
BenchmarkS/lock=bare    1  1 µs_p50  12345 messages  0.5 odd
BenchmarkS/lock=a,_b    1  2 µs_p50  1.5 messages
BenchmarkS/lock=c-2     1  5 µs_p50
round: 1
BenchmarkS/lock=a,_b    1  30 µs_p50  2.5 messages
BenchmarkS/lock=c-2
--- FAIL: BenchmarkS/lock=c-2
BenchmarkS/lock=bare    1  10 µs_p50  12345 messages
round: 2
BenchmarkS/lock=c-2     1  500 µs_p50
BenchmarkS/lock=bare    1  100 µs_p50  12345 messages
BenchmarkS/lock=a,_b    1  200 µs_p50  3.5 messages
`

const tables = `### S

|      | µs p50 |   × | messages | odd |
| ---- | -----: | --: | -------: | --: |
| bare |     10 |   1 |   12,345 | 0.5 |
| a, b |     30 |   2 |      2.5 |     |
| c    |    252 |   5 |          |     |

`

func TestRatiosAreTakenWithinARound(t *testing.T) {
	var out strings.Builder
	if err := run(strings.NewReader(rounds), &out, ""); err != nil || out.String() != tables {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestFiguresHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.001234: "0.00123", 1.2: "1.2", 12.34: "12.3",
		99.96: "100", 1234567.8: "1,234,568", -1234: "-1,234"} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) = %q; want %q", v, got, want)
		}
	}
}

func TestDocGetsTheTablesAndKeepsTheRest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	page := "text\n<!-- bench: S -->\nold\n<!-- end of bench -->\n<!-- bench: Other -->\nkept\n<!-- end of bench -->\n"
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(strings.NewReader(rounds), &out, file); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(page, "old\n", strings.TrimPrefix(tables, "### S\n"), 1)
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	// A table without a block in the page changes nothing.
	if err := run(strings.NewReader("BenchmarkT/lock=a 1 2 x\n"), &out, file); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
