package skew

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
	for _, w := range eventWords {
		if w.word == e.What && w.word != "" {
			known, arg = true, w.arg
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

// Words describes the trace to a reader, one event a line.
func (t Trace) Words() string {
	var b strings.Builder
	for _, e := range t.Events {
		fmt.Fprintf(&b, "%4d  %-6s %s\n", e.At, e.Who, e.words())
	}
	return b.String()
}

func (e Event) words() string {
	says := e.What
	for kind, w := range eventWords {
		if w.word == e.What && (eventKind(kind) == evServer) == (e.Who == "server") {
			says = w.says
			break
		}
	}
	if strings.Contains(says, "%") {
		says = fmt.Sprintf(says, e.Arg)
	}
	result := resultSays[e.What+" "+e.Result]
	if result == "" {
		result = resultSays[e.Result]
	}
	if result != "" {
		says += ": " + result
	}
	return says
}

var resultSays = map[string]string{
	"acquire noted":  "it remembers the expired value, and when it saw it",
	"clock greatest": "with the greatest lease",
	"note noted":     "done", "note kept": "another value is there",
	"acquire won": "it takes the key", "check won": "its mark is there, it holds",
	"check lost":  "its mark is gone",
	"renewed won": "renewed", "renewed lost": "refused", "sample kept": "the same bytes",
	"decide kept": "leaves the key",
	"decide done": "will delete", "look done": "will delete", "look kept": "leaves the key",
	"won": "it holds", "lost": "it does not get the lock", "nil": "nothing there", "held": "held by another",
	"done":     "done",
	"takeover": "it replaces an expired value and takes the key", "missing": "there was nothing left",
	"kept": "left alone", "value": "a value",
}
