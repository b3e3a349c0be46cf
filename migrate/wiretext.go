package migrate

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The records on the server are one line of text: the version, then words "name=value" in a fixed
// order. Every reader is strict, so that what it does not know is never taken for something it knows.
const (
	wireVersion = "gsl/2"
	wireNumber  = 2
)

// ErrNewer says that a record was written by a newer version of this package. It is never read in part.
var ErrNewer = errors.New("it was written by a newer version of getsetlock; use that version or a newer one here too")

// ErrOlder says that a record was written by an older version of this package,
// which knew nothing of clocks that lie off the server's. It is never read in
// part.
var ErrOlder = errors.New("an older version of getsetlock wrote it, and this version does not read it: replace the program that wrote it, then delete the key (the record is written anew by init)")

var errForm = errors.New("it has no form that getsetlock writes; something else uses this name")

// words takes a record apart. Its names must be those given, in their order.
func words(text string, names ...string) ([]string, error) {
	parts := strings.Split(text, " ")
	if version, ok := strings.CutPrefix(parts[0], "gsl/"); ok && parts[0] != wireVersion {
		if n, err := strconv.Atoi(version); err == nil && n > wireNumber {
			return nil, ErrNewer
		} else if err == nil && n > 0 {
			return nil, ErrOlder
		}
	}
	if parts[0] != wireVersion || len(parts) != len(names)+1 {
		return nil, errForm
	}
	values := make([]string, len(names))
	for i, name := range names {
		value, ok := strings.CutPrefix(parts[i+1], name+"=")
		if !ok {
			return nil, fmt.Errorf("%w (word %d is not %s)", errForm, i+1, name)
		}
		values[i] = value
	}
	return values, nil
}

// reader collects the first fault of a record's values.
type reader struct{ err error }

func (r *reader) bad(what, text string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w (%s %q)", errForm, what, text)
	}
}

func (r *reader) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		r.bad("number", text)
	}
	return n
}

func (r *reader) millis(text string) time.Duration {
	n := r.number(text)
	if n > int64(longestTime/time.Millisecond) {
		r.bad("time", text)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// longestTime is far beyond every lease and job, and far from overflow.
const longestTime = 100 * 365 * 24 * time.Hour

func (r *reader) phase(text string) Phase {
	if text == NoPhase.String() {
		return NoPhase
	}
	p, err := ParsePhase(text)
	if err != nil {
		r.bad("phase", text)
	}
	return p
}

// instant reads the server's clock as seconds and six digits of microseconds.
func (r *reader) instant(text string) time.Time {
	sec, micros, ok := strings.Cut(text, ".")
	if !ok || len(micros) != 6 {
		r.bad("time", text)
		return time.Time{}
	}
	s, u := r.number(sec), r.number(strings.TrimLeft(micros[:5], "0")+micros[5:])
	return time.Unix(s, u*1000).UTC()
}

func (r *reader) word(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil || url.QueryEscape(plain) != text {
		r.bad("word", text)
	}
	return plain
}

func instantText(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

func millisText(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// wordText makes any text one word, as forms on the web are written.
func wordText(s string) string { return url.QueryEscape(s) }

// Names on the wire. A namespace holds no colon and an id neither, so no two names are the same.
func recordKey(namespace string) string     { return recordPrefix + namespace }
func memberKey(namespace, id string) string { return memberPrefix + namespace + ":" + id }
func probeKey(namespace, id string) string  { return "gsl:probe:" + namespace + ":" + id }
func seenKey(namespace string) string       { return "gsl:seen:" + namespace }
func livedKey(namespace string) string      { return "gsl:lived:" + namespace }

// livedField is the one field of a hash, which nobody takes for a lock: a number of that size as a
// string reads as a stamp.
const livedField = "ms"

const (
	recordPrefix = "gsl:phase:"
	memberPrefix = "gsl:member:"
)

func validNamespace(namespace string) error {
	bad := strings.ContainsFunc(namespace, func(r rune) bool {
		return strings.ContainsRune(":{} ", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	})
	if bad {
		return fmt.Errorf("migrate: namespace %q: only printable characters without colons, blanks and braces are allowed", namespace)
	}
	return nil
}
