// SPDX-License-Identifier: Apache-2.0

//go:build real

package spec_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// state is one state of TLC's trace, and the action that led to it.
type state struct {
	action string
	text   string // all variables, with single blanks
}

var (
	heading = regexp.MustCompile(`(?m)^State \d+: <(\S+).*$`)
	total   = regexp.MustCompile(
		`(?m)^\d+ states generated, (\d+) distinct states found, 0 states left on queue`)
	inWorld  = regexp.MustCompile(`/\\ world = (\d+)`)
	keyL     = regexp.MustCompile(`/\\ L = \[([^\]]*)\]`)
	byWhom   = regexp.MustCompile(`/\\ M = \[[^\]]*by \|-> (\d+)`)
	phaseNow = regexp.MustCompile(`/\\ record = (\d)`)
	pc       = regexp.MustCompile(`pc \|-> "([^"]*)"`)
	members  = regexp.MustCompile(`(1\d) :> (\d)\b`)
	away     = regexp.MustCompile(`(?:away|unsaid) \|-> \{([^}]*)\}`)
)

const violated = "Error: Invariant FirstHarm is violated"

// parse reads TLC's output about a module of many worlds.
func parse(t *testing.T, out string) answer {
	t.Helper()
	seen := total.FindStringSubmatch(out)
	pieces := strings.Split(out, violated)
	// TLC announces each violation twice: that there is one, and its trace.
	if seen == nil || strings.Count(out, "Error: ") != 2*(len(pieces)-1) {
		t.Fatalf("TLC came to no answer:\n%.4000s", out)
	}
	a := answer{traces: make(map[int][]state)}
	a.states, _ = strconv.Atoi(seen[1])
	for _, piece := range pieces[1:] {
		number := inWorld.FindStringSubmatch(piece)
		if number == nil {
			t.Fatalf("a trace without a world:\n%.2000s", piece)
		}
		w, _ := strconv.Atoi(number[1])
		a.traces[w-1] = states(piece)
	}
	return a
}

func states(text string) []state {
	var all []state
	found := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		all = append(all, state{action: text[at[2]:at[3]],
			text: strings.Join(strings.Fields(text[at[1]:end]), " ")})
	}
	return all
}

// words describes a trace: when, which client, which action, and what both keys
// have then.
func words(trace []state) string {
	var b strings.Builder
	now := 0
	for i, s := range trace[1:] {
		if s.action == "Tick" {
			now++
			continue
		}
		fmt.Fprintf(&b, "%3d  %-6s %-14s L: %-20s M: %s\n", now, mover(trace[i], s), s.action, onL(s), onM(s))
	}
	return b.String()
}

func onL(s state) string {
	fields := make(map[string]string)
	for _, f := range strings.Split(keyL.FindStringSubmatch(s.text)[1], ", ") {
		name, value, _ := strings.Cut(f, " |-> ")
		fields[strings.TrimSpace(name)] = strings.Trim(value, `" `)
	}
	if fields["kind"] == "stamp" {
		return fmt.Sprintf("stamp %s, TTL %s", fields["at"], fields["ttl"])
	}
	return fields["kind"]
}

// onM names the client whose token M has, by Bridge.tla's numbers.
func onM(s state) string {
	switch n, _ := strconv.Atoi(byWhom.FindStringSubmatch(s.text)[1]); n {
	case 0:
		return "none"
	case 99:
		return "a stranger's"
	default:
		return fmt.Sprintf("ours%d's", n-10)
	}
}

// mover returns the client whose step an action was; empty for the record's
// steps.
func mover(before, after state) string {
	was, is := pc.FindAllString(before.text, -1), pc.FindAllString(after.text, -1)
	if after.action == "Empty" || phaseNow.FindString(before.text) != phaseNow.FindString(after.text) ||
		len(was) != 6 || len(is) != 6 {
		return "record"
	}
	if who := registered(before, after); who != "" {
		return who
	}
	// TLC prints variables in its own order.
	oldFirst := strings.Index(after.text, `/\ old = `) < strings.Index(after.text, `/\ our = `)
	for i := range is {
		if was[i] == is[i] {
			continue
		}
		if oldFirst == (i < 3) {
			return fmt.Sprint("old", i%3+1)
		}
		return fmt.Sprint("ours", i%3+1)
	}
	return ""
}

// registered returns the member that has read the record, or whose heartbeats
// have stopped or returned.
func registered(before, after state) string {
	was, is := members.FindAllStringSubmatch(before.text, -1), members.FindAllStringSubmatch(after.text, -1)
	for i := range is {
		if i < len(was) && was[i][2] != is[i][2] {
			return named(is[i][1])
		}
	}
	if a, b := unheardOf(before), unheardOf(after); a != b {
		for _, n := range strings.Split(a+","+b, ",") {
			if n = strings.TrimSpace(n); n != "" && strings.Contains(a, n) != strings.Contains(b, n) {
				return named(n)
			}
		}
	}
	return ""
}

// unheardOf returns the members that gates do not hear, for any reason.
func unheardOf(s state) string {
	var all []string
	for _, found := range away.FindAllStringSubmatch(s.text, -1) {
		all = append(all, found[1])
	}
	return strings.Join(all, ",")
}

// named returns the name of a getsetlock client, by its number in Bridge.tla.
func named(number string) string {
	n, _ := strconv.Atoi(number)
	return fmt.Sprint("ours", n-10)
}
