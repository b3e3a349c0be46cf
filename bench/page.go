package main

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
			text = align(lines)
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

// CheckPage returns an error where Page would find no place for the figures of
// these scenarios, so that nobody measures for minutes in vain.
func CheckPage(page string, scenarios []Scenario) error {
	if _, err := Page(page, "", &Report{}, scenarios); err != nil {
		return fmt.Errorf("nothing was measured: %w", err)
	}
	return nil
}
