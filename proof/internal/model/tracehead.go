// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// ParseScenario reads the head of a trace: the scenario in which it was found,
// as far as the head states it (MaxStates is missing). The error names the
// first line that is not known.
func ParseScenario(r io.Reader) (Scenario, error) {
	var sc Scenario
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, head := strings.CutPrefix(strings.TrimSpace(lines.Text()), "# ")
		if !head {
			break
		}
		if err := sc.headLine(line); err != nil {
			return Scenario{}, fmt.Errorf("skew: trace line %d: %w", n, err)
		}
	}
	return sc, lines.Err()
}

func (sc *Scenario) headLine(line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "trace":
		if rest != "1" {
			return fmt.Errorf("format %q is not known", rest)
		}
	case "goal":
		sc.Goal, err = ParseGoal(rest)
	case "dialect":
		sc.Dialect, err = dialect.Lookup(rest)
	case "phase":
		sc.Ours.Phase = Phase(rest)
	case "without":
		sc.Ours.Break, err = ParseRules(rest)
	case "with":
		for option := range strings.SplitSeq(rest, ", ") {
			if err := sc.option(option); err != nil {
				return err
			}
		}
	default:
		return sc.numbers(line)
	}
	return err
}

// numbers reads pairs of a name and a number.
func (sc *Scenario) numbers(line string) error {
	fields := map[string]*int{
		"old": &sc.Old, "lease": &sc.Lease, "job": &sc.Job, "gap": &sc.Gap, "reply": &sc.Reply,
		"rest": &sc.Rest, "behind": &sc.Behind, "ahead": &sc.Ahead,
		"ours": &sc.Ours.Clients, "ttl": &sc.Ours.TTL, "long": &sc.Ours.Long, "margin": &sc.Ours.Margin,
		"stop":   &sc.Ours.Stop,
		"settle": &sc.Ours.Settle, "takeover": &sc.Ours.TakeoverMargin, "unchanged": &sc.Ours.Unchanged,
		"sparse": &sc.Ours.Sparse, "look": &sc.Ours.Look,
		"leaves": &sc.Ours.Leaves, "renewals": &sc.Ours.Renewals, "attempts": &sc.Ours.Attempts,
		"waits": &sc.Ours.Waits,
	}
	words := strings.Fields(line)
	for i := 0; i < len(words); i += 2 {
		field := fields[words[i]]
		if field == nil || i+1 == len(words) {
			return fmt.Errorf("%q is not known", line)
		}
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return fmt.Errorf("%q is not a number", words[i+1])
		}
		*field = n
	}
	return nil
}

// option reads one of the options that a scenario has besides its numbers.
func (sc *Scenario) option(text string) error {
	switches := map[string]*bool{
		"overrun": &sc.Overrun, "renews": &sc.Renews, "own delay": &sc.OwnDelay,
		"prompt ends": &sc.PromptEnds, "stamp at write": &sc.StampAtWrite,
		"step undone": &sc.StepUndone, "fail-over": &sc.FailOver,
		"behind known": &sc.Ours.Known, "behind measured": &sc.Ours.Measured,
		"watched":         &sc.Ours.Watched,
		"looks elsewhere": &sc.Ours.Elsewhere, "old server": &sc.Ours.OldServer,
		"no tombstone": &sc.Ours.NoTombstone, "late": &sc.Ours.Late, "forget": &sc.Ours.Forget,
		"newcomers": &sc.Ours.Newcomers, "deaf": &sc.Ours.Deaf, "again": &sc.Ours.Again,
		"restored": &sc.Ours.Restored, "vanishes": &sc.Ours.Vanishes, "empties": &sc.Ours.Empties,
		"loses": &sc.Ours.Loses, "joins": &sc.Ours.Joins, "slow verb": &sc.Ours.Slow,
		"rests": &sc.Ours.Rests, "long attempts": &sc.Ours.LongAttempts, "loses record": &sc.Ours.LosesRecord,
		"composes": &sc.Ours.Composes, "settle always": &sc.Ours.SettleAlways,
	}
	if on := switches[text]; on != nil {
		*on = true
		return nil
	}
	if to, ok := strings.CutPrefix(text, "to "); ok {
		sc.Ours.To = Phase(to)
		return nil
	}
	for name, n := range map[string]*int{
		"fleet step ": &sc.FleetStep, "server step ": &sc.ServerStep, "shorten ": &sc.Shorten,
		"unit ": &sc.Unit, "greatest ": &sc.Greatest, "stamp ahead ": &sc.Ours.StampAhead} {
		ticks, ok := strings.CutPrefix(text, name)
		if !ok {
			continue
		}
		var err error
		if *n, err = strconv.Atoi(ticks); err != nil {
			return fmt.Errorf("%q is not a number", ticks)
		}
		if n == &sc.FleetStep {
			*n = -*n
		}
		return nil
	}
	return fmt.Errorf("%q is not an option", text)
}

// ParseGoal returns the goal with a name that Goal.String and traces write.
func ParseGoal(name string) (Goal, error) {
	n := slices.Index(goals[:], name)
	if n < 0 {
		return 0, fmt.Errorf("%q is not a goal", name)
	}
	return Goal(n), nil
}

// ParseRules returns the rules of a list of names that Rule.String and traces
// write. A rule's name may contain a comma.
func ParseRules(text string) (Rule, error) {
	var rules Rule
	for text != "" {
		found := false
		for i, name := range ruleNames {
			if rest, ok := strings.CutPrefix(text, name); ok &&
				(rest == "" || strings.HasPrefix(rest, ", ")) {
				rules, text, found = rules|1<<i, strings.TrimPrefix(rest, ", "), true
				break
			}
		}
		if !found {
			return 0, fmt.Errorf("%q is not a rule", text)
		}
	}
	return rules, nil
}
