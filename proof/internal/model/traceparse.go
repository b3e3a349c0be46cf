// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ParseTrace reads the events of a trace in the text format of [Trace.String].
// It skips lines that are empty or begin with "#". The error names the first
// line that is not an event.
func ParseTrace(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		e, err := parseEvent(line)
		if err != nil {
			return nil, fmt.Errorf("skew: trace line %d: %w", n, err)
		}
		if len(events) > 0 && e.At < events[len(events)-1].At {
			return nil, fmt.Errorf("skew: trace line %d: tick %d after tick %d", n, e.At,
				events[len(events)-1].At)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

func parseEvent(line string) (Event, error) {
	f := strings.Fields(line)
	if len(f) < 3 || len(f) > 5 {
		return Event{}, fmt.Errorf("%q is not TICK WHO WHAT [ARG] [RESULT]", line)
	}
	at, err := strconv.Atoi(f[0])
	if err != nil || at < 0 {
		return Event{}, fmt.Errorf("%q is not a tick", f[0])
	}
	e := Event{At: at, Who: f[1], What: f[2]}
	known, arg := false, false
	for _, w := range allWords().Acts {
		if w.Word == e.What && w.Word != "" {
			known, arg = true, w.Arg
		}
	}
	if !known {
		return Event{}, fmt.Errorf("%q is not an event", e.What)
	}
	rest := f[3:]
	if arg {
		if len(rest) == 0 {
			return Event{}, fmt.Errorf("%q needs a number", e.What)
		}
		if e.Arg, err = strconv.Atoi(rest[0]); err != nil {
			return Event{}, fmt.Errorf("%q is not a number", rest[0])
		}
		e.HasArg, rest = true, rest[1:]
	}
	if len(rest) > 1 {
		return Event{}, fmt.Errorf("%q is too much", strings.Join(rest[1:], " "))
	}
	if len(rest) == 1 {
		e.Result = rest[0]
	}
	return e, nil
}
