// Package readme runs the commands that the README shows and compares what they print with what it
// says they print.
//
// It reads blocks indented by four spaces. One whose lines begin with a program's name is a block of
// commands; any other is the output of the last command before it, of which each line must come in
// that order, whatever its numbers are and however its columns are spaced.
//
// It doesn't judge prose, and commands inside of sentences are not run.
package readme

import (
	"regexp"
	"strconv"
	"strings"
)

// Step is a command that the README shows, and the output that it shows for it.
type Step struct {
	Command string
	Output  []string // empty where none is shown
	Line    int      // of the command, counted from 1
}

var status = regexp.MustCompile(`  # exits with ([0-9]+)\b`)

// Status is the exit code that the step says its command ends with: 0 where it says nothing.
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

// Steps are the commands of the text in their order.
func Steps(text string) []Step {
	var steps []Step
	inBlock, commands := false, false
	for i, line := range strings.Split(text, "\n") {
		shown, indented := strings.CutPrefix(line, "    ")
		if !indented {
			inBlock = inBlock && line == "" // an empty line may stand inside a block
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
	// A duration is a number whatever its units are: 59.8s and 1m0.1s are what two runs print.
	numbers = regexp.MustCompile(`([0-9]+([.,][0-9]+)*(ns|µs|ms|s|m|h)?)+`)
	blanks  = regexp.MustCompile(`[\s─-]+`)
)

// plain is a line without what differs from run to run.
func plain(line string) string {
	return strings.TrimSpace(blanks.ReplaceAllString(numbers.ReplaceAllString(line, "#"), " "))
}

// shows says whether the line of the README is the printed one, or its beginning where it ends with " …":
// tables are wider than a README.
func shows(want, line string) bool {
	if head, cut := strings.CutSuffix(want, " …"); cut {
		return strings.HasPrefix(plain(line), plain(head)+" ")
	}
	return plain(line) == plain(want)
}

// Missing are the lines of want that got does not have, or not in that order.
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
