// Package readme runs the commands that the README shows, and compares their
// output with the output that the README shows.
//
// It reads blocks indented by four spaces. A block whose lines begin with a
// program's name has commands. Any other block is the output of the last
// command before it. The command must print each of its lines, in that order;
// numbers and the spacing of columns may differ.
//
// The package does not check prose, and does not run commands within sentences.
package readme

import (
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

var programs = regexp.MustCompile(`^(go|make|getsetlock) `)

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
	blanks  = regexp.MustCompile(`[\s─-]+`)
)

// plain returns a line without what differs from run to run.
func plain(line string) string {
	return strings.TrimSpace(blanks.ReplaceAllString(numbers.ReplaceAllString(line, "#"), " "))
}

// shows reports whether the README's line is the printed one. A line that ends
// with " …" need only be its beginning, since tables are wider than a README.
func shows(want, line string) bool {
	if head, cut := strings.CutSuffix(want, " …"); cut {
		return strings.HasPrefix(plain(line), plain(head)+" ")
	}
	return plain(line) == plain(want)
}

// Missing returns the lines of want that got lacks, or has in another order.
func Missing(want []string, got string) []string {
	var missing []string
	rest := strings.Split(got, "\n")
	for _, w := range want {
		at := -1
		for i, line := range rest {
			if shows(w, line) {
				at = i
				break
			}
		}
		if at < 0 {
			missing = append(missing, w)
			continue
		}
		rest = rest[at+1:]
	}
	return missing
}
