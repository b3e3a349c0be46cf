package offset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// appendQuoted writes bytes in the one form that words.text reads. Printable
// ASCII stays as it is, with a backslash before a quote or backslash. Any other
// byte becomes \xNN in lower case.
func appendQuoted(to []byte, s string) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ' || c > '~':
			to = append(to, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return append(to, '"')
}

// words takes a line apart from the left; only the first failure is kept.
type words struct {
	rest string
	err  error
}

func (w *words) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// bare returns the next word without quotes.
func (w *words) bare(what string) string {
	if w.err != nil {
		return ""
	}
	word, rest, found := strings.Cut(w.rest, " ")
	if word == "" {
		w.fail("%s is missing", what)
	}
	if found && rest == "" {
		w.fail("a blank ends the line")
	}
	w.rest = rest
	return word
}

// text returns the next word in quotes.
func (w *words) text(what string) string {
	if w.err != nil {
		return ""
	}
	if !strings.HasPrefix(w.rest, `"`) {
		w.fail("%s is not in quotes", what)
		return ""
	}
	var out []byte
	s := w.rest
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			w.after(what, s[i+1:])
			return string(out)
		case c < ' ' || c > '~':
			w.fail("%s has byte %#02x, which is written \\x%02x", what, c, c)
			return ""
		case c != '\\':
			out = append(out, c)
		default:
			b, n := unescaped(s[i:])
			if n == 0 {
				w.fail("%s has a backslash before something that needs none", what)
				return ""
			}
			out, i = append(out, b), i+n-1
		}
	}
	w.fail("%s lacks its closing quote", what)
	return ""
}

// after continues after a closing quote: a blank and more, or the end.
func (w *words) after(what, rest string) {
	switch {
	case rest == "":
		w.rest = ""
	case rest[0] != ' ' || rest == " ":
		w.fail("%s is not followed by one blank and another word, or by the end", what)
	default:
		w.rest = rest[1:]
	}
}

// unescaped reads one escape and returns its length; 0 for an escape that no
// writer would have written.
func unescaped(s string) (byte, int) {
	if len(s) >= 2 && (s[1] == '"' || s[1] == '\\') {
		return s[1], 2
	}
	if len(s) < 4 || s[1] != 'x' || strings.ToLower(s[2:4]) != s[2:4] {
		return 0, 0
	}
	n, err := strconv.ParseUint(s[2:4], 16, 8)
	if err != nil || n >= ' ' && n <= '~' {
		return 0, 0
	}
	return byte(n), 4
}

// number returns the next word as a whole number, in the form that a formatter
// writes.
func (w *words) number(what string, low, high int64) int64 {
	word := w.bare(what)
	if w.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(word, 10, 64)
	switch {
	case err != nil || strconv.FormatInt(n, 10) != word:
		w.fail("%s %s is no whole number", what, strconv.Quote(word))
	case n < low || n > high:
		w.fail("%s %d is not from %d to %d", what, n, low, high)
	}
	return n
}

// The bounds of a record: instants to the end of 2199, spans of a century.
const (
	lastObservedSecond  = 7_258_118_399
	longestObservedSpan = 100 * 366 * 24 * int64(time.Hour/time.Microsecond)
)

func (w *words) span(what string, low int64) time.Duration {
	return time.Duration(w.number(what, low, longestObservedSpan)) * time.Microsecond
}

func (w *words) instant() time.Time {
	word := w.bare("the instant")
	if w.err != nil {
		return time.Time{}
	}
	whole, fraction, _ := strings.Cut(word, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	micros, err2 := strconv.ParseUint(fraction, 10, 32)
	if errors.Join(err, err2) != nil || len(fraction) != 6 || strconv.FormatInt(seconds, 10) != whole ||
		seconds < 0 || seconds > lastObservedSecond {
		w.fail("the instant %s is not seconds since 1970 with six digits behind the point",
			strconv.Quote(word))
		return time.Time{}
	}
	return time.Unix(seconds, int64(micros)*1000).UTC()
}

// parseObserved reads a line without its end.
func parseObserved(line string) (Observed, error) {
	w := &words{rest: line}
	o := Observed{At: w.instant(), Kind: ObservedKind(w.bare("the kind"))}
	switch o.Kind {
	case ObservedCommand:
		o.Addr = w.text("the address")
		o.DB = int(w.number("the database", 0, 1<<31-1))
		o.Args = w.texts("argument")
	case ObservedLook:
		o.Key = w.text("the key")
		w.looked(&o)
	case ObservedEvent:
		o.Event, o.Key = w.text("the event"), w.text("the key")
	case ObservedHold:
		o.Addr, o.Key, o.For = w.text("the address"), w.text("the key"), w.span("the hold", 0)
	case ObservedStep:
		o.For = w.span("the step", -longestObservedSpan)
	case ObservedGap:
		o.For, o.Reason = w.span("the gap", 0), w.text("the reason")
	case ObservedClient:
		o.Addr, o.Name = w.text("the address"), w.text("the name")
		o.Library, o.User = w.text("the library"), w.text("the user")
	case ObservedStats:
		o.Event, o.Count = w.text("the command"), w.number("the count", 0, math.MaxInt64)
	case ObservedProbe:
		o.Event = w.text("the sum")
		o.Args = w.texts("word")
	default:
		w.fail("there is no kind %s", strconv.Quote(string(o.Kind)))
	}
	if w.err == nil && w.rest != "" {
		w.fail("more words than a %s has: %s", o.Kind, strconv.Quote(w.rest))
	}
	if w.err != nil {
		return Observed{}, w.err
	}
	return o, nil
}

// texts returns all words that are left, at least one.
func (w *words) texts(what string) (out []string) {
	for more := true; more && w.err == nil; more = w.rest != "" {
		out = append(out, w.text(what+" "+strconv.Itoa(len(out)+1)))
	}
	return out
}

func (w *words) looked(o *Observed) {
	if strings.HasPrefix(w.rest, "- ") {
		w.bare("the value")
	} else {
		o.Value, o.Exists = w.text("the value, or -,"), true
	}
	if w.rest == "-" {
		w.rest = ""
		return
	}
	if !o.Exists {
		w.fail("a missing key has a TTL")
	}
	o.TTL = time.Duration(w.number("the TTL", 0, longestObservedSpan/1000)) * time.Millisecond
	o.HasTTL = true
}
