// SPDX-License-Identifier: Apache-2.0

// Package readme runs the commands that the README shows, and compares their
// output with the output that the README shows.
//
// It reads blocks indented by four spaces. A block whose lines begin with a
// program's name has commands. Any other block is the output of the last
// command before it. The command must print each of its lines, in that order.
// Numbers are compared too, except for what a clock of this machine decides;
// the spacing of columns may differ.
//
// The package also takes the Go program out of the README, as a newcomer does
// who copies it.
//
// The package does not check prose, and does not run commands within sentences.
package readme

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Step is a command that the README shows, and the output that it shows for it.
type Step struct {
	Command string
	Output  []string // empty where the README shows none
	Line    int      // line of the command, from 1
}

var status = regexp.MustCompile(`  # exits with ([0-9]+)\b`)

// Status returns the exit code that the README states for the command, and 0
// where it states none.
func (s Step) Status() int {
	if m := status.FindStringSubmatch(s.Command); m != nil {
		code, err := strconv.Atoi(m[1])
		if err != nil {
			return -1 // no program ends with so great a number
		}
		return code
	}
	return 0
}

var programs = regexp.MustCompile(`^(go|make|docker|export|getsetlock) `)

// Steps returns the commands of the text in their order.
func Steps(text string) []Step {
	var steps []Step
	inBlock, commands := false, false
	for i, line := range strings.Split(text, "\n") {
		shown, indented := strings.CutPrefix(line, "    ")
		if !indented {
			inBlock = inBlock && line == "" // a block may contain an empty line
			continue
		}
		if !inBlock {
			inBlock, commands = true, programs.MatchString(shown)
		}
		switch {
		case commands:
			steps = append(steps, Step{Command: shown, Line: i + 1})
		case len(steps) > 0 && strings.TrimSpace(shown) != "":
			last := &steps[len(steps)-1]
			last.Output = append(last.Output, shown)
		}
	}
	return steps
}

var (
	// A duration is a number whatever its units: two runs may print 59.8s and
	// 1m0.1s.
	numbers = regexp.MustCompile(`([0-9]+([.,][0-9]+)*(ns|µs|ms|s|m|h)?)+`)
	// A live lock ends by the clock: its stamp, and the time that is left.
	times    = regexp.MustCompile(`\b([0-9]{13}|([0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h))+)\b`)
	hereTook = regexp.MustCompile(`\([0-9.]+m?s here\)`)
	blanks   = regexp.MustCompile(`[\s─-]+`)
)

// Mask takes out of a line what may differ from run to run.
type Mask func(line string) string

// MaskFor returns the mask for the output of a command. Only ls looks at a live
// lock. All other commands that the README shows compute in virtual time, from
// a seed, and say at most how long that took here.
func MaskFor(command string) Mask {
	if strings.HasPrefix(command, "getsetlock ls") {
		return func(line string) string { return times.ReplaceAllString(line, "#") }
	}
	return func(line string) string { return hereTook.ReplaceAllString(line, "#") }
}

// NoNumbers is the mask that takes out all numbers. Where it makes two lines
// equal, one is another run of the other.
func NoNumbers(line string) string { return numbers.ReplaceAllString(line, "#") }

func (m Mask) plain(line string) string {
	return strings.TrimSpace(blanks.ReplaceAllString(m(line), " "))
}

// shows reports whether the README's line is the printed one. A line that ends
// with " …" need only be its beginning, since tables are wider than a README.
func (m Mask) shows(want, line string) bool {
	if head, cut := strings.CutSuffix(want, " …"); cut {
		return strings.HasPrefix(m.plain(line), m.plain(head)+" ")
	}
	return m.plain(line) == m.plain(want)
}

// Missing returns the lines of want that got lacks, or has in another order.
func (m Mask) Missing(want []string, got string) []string {
	var missing []string
	rest := strings.Split(got, "\n")
	for _, w := range want {
		at := m.find(w, rest)
		if at < 0 {
			missing = append(missing, w)
			continue
		}
		rest = rest[at+1:]
	}
	return missing
}

func (m Mask) find(want string, lines []string) int {
	for i, line := range lines {
		if m.shows(want, line) {
			return i
		}
	}
	return -1
}

var program = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")

// Program returns the whole Go program of the text.
func Program(text string) (string, error) {
	found := program.FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("the text shows %d Go programs, and one is wanted", len(found))
	}
	return found[0][1], nil
}
