package bench

import (
	"fmt"
	"slices"
	"strings"
)

// A block of a page begins with a line that names it and has an end.
const (
	beginMark = "<!-- bench: "
	markEnd   = " -->\n"
	blockEnd  = "<!-- end of bench -->\n"

	runBlock = "run" // the block for the machine and the date
)

func blockBegin(name string) string { return beginMark + name + markEnd }

// Page returns a Markdown page with the tables of a report, each in the block
// of its scenario, and about in the block "run". A block begins with a line
// "<!-- bench: NAME -->" and ends with "<!-- end of bench -->". A scenario of
// which nothing was measured leaves its block empty.
//
// The figures of a page are those of one run. So it is an error when a scenario
// has no block, and when the page has a figure of a scenario that is not given.
func Page(page, about string, rep *Report, scenarios []Scenario) (string, error) {
	for _, s := range scenarios {
		text := ""
		if lines := rep.Table(s); len(lines) > 1 {
			text = pictureLine(s) + align(lines)
		}
		var err error
		if page, err = fill(page, s.Name, text); err != nil {
			return "", err
		}
	}
	if name := leftOver(page, scenarios); name != "" {
		return "", fmt.Errorf("the page has figures of %q from another run: measure every scenario", name)
	}
	return fill(page, runBlock, about)
}

// Pictures draws the tables of a page. It returns each SVG image by the path of
// its file, relative to the page, and the page with a link to each image above
// its table.
func Pictures(page string, scenarios []Scenario) (string, map[string]string, error) {
	drawn := map[string]string{}
	for _, s := range scenarios {
		_, inside, _, err := block(page, s.Name)
		if err != nil {
			return "", nil, err
		}
		text, lines := cells(inside)
		if len(lines) == 0 || len(s.Picture) == 0 {
			continue
		}
		picture, err := Picture(s, lines)
		if err != nil {
			return "", nil, err
		}
		drawn[pictureFile(s)] = picture
		if page, err = fill(page, s.Name, pictureLine(s)+text); err != nil {
			return "", nil, err
		}
	}
	return page, drawn, nil
}

// pictureFile is the path of a scenario's picture, seen from the page.
func pictureFile(s Scenario) string {
	return "performance/" + strings.ReplaceAll(s.Name, "/", "-") + ".svg"
}

func pictureLine(s Scenario) string {
	if len(s.Picture) == 0 {
		return ""
	}
	return fmt.Sprintf("![%s: %s](%s)\n\n", s.Name, s.Title, pictureFile(s))
}

// block cuts a page at the block of that name.
func block(page, name string) (before, inside, after string, err error) {
	before, rest, ok := strings.Cut(page, blockBegin(name))
	inside, after, ended := strings.Cut(rest, blockEnd)
	if !ok || !ended {
		return "", "", "", fmt.Errorf("the page has no lines %q and %q",
			strings.TrimSpace(blockBegin(name)), strings.TrimSpace(blockEnd))
	}
	return before, inside, after, nil
}

func fill(page, name, text string) (string, error) {
	before, _, after, err := block(page, name)
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(text); text != "" {
		text = "\n" + text + "\n\n"
	}
	return before + blockBegin(name) + text + blockEnd + after, nil
}

// leftOver is the name of a block with a table of none of the scenarios.
func leftOver(page string, scenarios []Scenario) string {
	for _, part := range strings.Split(page, beginMark)[1:] {
		name, _, _ := strings.Cut(part, markEnd)
		if name == runBlock || slices.ContainsFunc(scenarios,
			func(s Scenario) bool { return s.Name == name }) {
			continue
		}
		if _, inside, _, err := block(page, name); err != nil || strings.TrimSpace(inside) != "" {
			return name
		}
	}
	return ""
}

// cells returns the lines of the first Markdown table in a text, as they stand
// there and as cells. The line below the heading, which has no cells, is left
// out of these.
func cells(text string) (string, [][]string) {
	var b strings.Builder
	var lines [][]string
	for line := range strings.Lines(text) {
		row := strings.TrimSpace(line)
		if !strings.HasPrefix(row, "|") {
			continue
		}
		b.WriteString(line)
		if strings.HasPrefix(row, "|--") {
			continue
		}
		split := strings.Split(strings.Trim(row, "|"), "|")
		for i, cell := range split {
			split[i] = strings.TrimSpace(cell)
		}
		lines = append(lines, split)
	}
	return b.String(), lines
}

// CheckPage returns an error where Page would find no place for the figures of
// these scenarios, so that nobody measures for minutes in vain.
func CheckPage(page string, scenarios []Scenario) error {
	if _, err := Page(page, "", &Report{}, scenarios); err != nil {
		return fmt.Errorf("nothing was measured: %w", err)
	}
	return nil
}
