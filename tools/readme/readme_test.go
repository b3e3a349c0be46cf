// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"reflect"
	"testing"
)

const text = `# Title

    go run ./cmd/x a

prints

    one   1.5 s
    two

    three

and

    getsetlock ls
    make test
`

func TestStepsHaveTheirOutput(t *testing.T) {
	want := []Step{
		{"go run ./cmd/x a", []string{"one   1.5 s", "two", "three"}, 3},
		{"getsetlock ls", nil, 14},
		{"make test", nil, 15},
	}
	if got := Steps(text); !reflect.DeepEqual(got, want) {
		t.Errorf("%#v", got)
	}
}

func TestMissingComparesLinesInOrder(t *testing.T) {
	for _, c := range []struct {
		want []string
		got  string
		lack int
	}{
		{[]string{"one   1.5 s", "two"}, "zero\none 20 s\nbetween\ntwo\n", 0},
		{[]string{"two", "one 1 s"}, "one 1 s\ntwo\n", 1},
		{[]string{"one 1 m"}, "one 1 s\n", 1},
		{[]string{"sold 3"}, "sold\n", 1},
		{[]string{"sold 3 …"}, "sold 4 of 5\n", 0},
		{[]string{"sold 3 …"}, "unsold 4 of 5\n", 1},
		{[]string{"so …"}, "sold 4\n", 1},
		{[]string{"took 59.8s of 3 m"}, "took 1m0.15s of 4 m\n", 0},
	} {
		if got := Mask(NoNumbers).Missing(c.want, c.got); len(got) != c.lack {
			t.Errorf("%q in %q: missing %q", c.want, c.got, got)
		}
	}
}

// Only what a clock decides is left out: a rehearsal's real duration, and the
// end of a live lock.
func TestMaskLeavesFiguresToCompare(t *testing.T) {
	for _, c := range []struct {
		command, want, got string
		same               bool
	}{
		{"getsetlock rehearse", "in 3m28s (5.53s here), seed 1", "in 3m28s (71ms here), seed 1", true},
		{"getsetlock rehearse", "3215 sold in 3m28s (5.53s here)", "3216 sold in 3m28s (5.53s here)", false},
		{"getsetlock rehearse", "3215 sold in 3m28s (5.53s here)", "3215 sold in 3m29s (5.53s here)", false},
		{"getsetlock audit --demo  # exits with 1", "a  +7.3s", "a +7.3s", true},
		{"getsetlock audit --demo  # exits with 1", "a  +7.3s …", "a +7.31s b", false},
		{"getsetlock ls", "Jedis +5  1m0s  1795199178262", "Jedis +5  59.9s  1795199178263", true},
		{"getsetlock ls", "stock:43  Jedis +5  1m0s", "stock:43  Jedis +6  1m0s", false},
	} {
		if got := MaskFor(c.command).shows(c.want, c.got); got != c.same {
			t.Errorf("%s: %q and %q: %t", c.command, c.want, c.got, got)
		}
	}
}

func TestProgramIsTheWholeOne(t *testing.T) {
	const part, whole = "```go\nf()\n```\n", "```go\npackage main\n\nfunc main() {}\n```\n"
	if got, err := Program(part + whole); err != nil || got != "package main\n\nfunc main() {}\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{part, whole + whole} {
		if got, err := Program(text); err == nil {
			t.Errorf("%q has the program %q", text, got)
		}
	}
}

func TestStatusReadsTheExitCodeOfAStep(t *testing.T) {
	for command, want := range map[string]int{
		"getsetlock ls":                          0,
		"getsetlock a  # exits with 1: it finds": 1,
		"getsetlock a  # what exits with 1":      0,
		"getsetlock a  # exits with 12":          12,
	} {
		if got := (Step{Command: command}).Status(); got != want {
			t.Errorf("%q: %d, want %d", command, got, want)
		}
	}
}
