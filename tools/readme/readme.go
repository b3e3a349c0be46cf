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
	"strings"
)

// Step is a command that the README shows, and the output that it shows for it.
type Step struct {
	Command string
	Output  []string // empty where none is shown
	Line    int      // of the command, counted from 1
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

// Missing are the lines of want that got does not have, or not in that order.
func Missing(want []string, got string) []string {
	var missing []string
	rest := strings.Split(got, "\n")
	for _, w := range want {
		at := -1
		for i, line := range rest {
			if plain(line) == plain(w) {
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
