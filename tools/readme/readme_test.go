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

func TestMissingComparesLinesInOrderWithoutNumbers(t *testing.T) {
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
		if got := Missing(c.want, c.got); len(got) != c.lack {
			t.Errorf("%q in %q: missing %q", c.want, c.got, got)
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
