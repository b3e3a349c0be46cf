// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Version begins every text on the server, which is one line: the version, then
// words "name=value" in a fixed order. Every reader is strict, so that it never
// misreads a text of another version.
const (
	Version       = "gsl/3"
	versionNumber = 3
)

// ErrNewer says that a record was written by a newer version of getsetlock.
// It is never read in part.
var ErrNewer = errors.New(
	"it was written by a newer version of getsetlock; use that version or a newer one here too")

// ErrOlder says that a text was written by an older version of getsetlock. It
// is never read in part.
var ErrOlder = errors.New(
	"it was written by an older version of getsetlock; stop the programs of that version, then delete the key")

// ErrForm says that a text was written by no version of getsetlock.
var ErrForm = errors.New("it has no form that getsetlock writes; something else uses this name")

// Line writes a text of names and their values.
func Line(names, values []string) string {
	var b strings.Builder
	b.WriteString(Version)
	for i, name := range names {
		b.WriteString(" " + name + "=" + values[i])
	}
	return b.String()
}

// versionOf is the version number in a text; 0 where it has none.
func versionOf(text string) int {
	first, _, _ := strings.Cut(text, " ")
	version, ok := strings.CutPrefix(first, "gsl/")
	n, err := strconv.Atoi(version)
	if !ok || err != nil || n < 1 {
		return 0
	}
	return n
}

// Words returns the values of a text. Its names must be the given ones, in that
// order.
func Words(text string, names ...string) ([]string, error) {
	parts := strings.Split(text, " ")
	switch n := versionOf(parts[0]); {
	case n > versionNumber:
		return nil, ErrNewer
	case n > 0 && n < versionNumber:
		return nil, ErrOlder
	}
	if parts[0] != Version || len(parts) != len(names)+1 {
		return nil, ErrForm
	}
	values := make([]string, len(names))
	for i, name := range names {
		value, ok := strings.CutPrefix(parts[i+1], name+"=")
		if !ok {
			return nil, fmt.Errorf("%w (word %d is not %s)", ErrForm, i+1, name)
		}
		values[i] = value
	}
	return values, nil
}

// Reader collects the first fault of a text's values.
type Reader struct{ Err error }

// Bad notes that a text is no value of that kind.
func (r *Reader) Bad(what, text string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w (%s %q)", ErrForm, what, text)
	}
}

// Number reads a number that is not negative.
func (r *Reader) Number(text string) int64 {
	n := r.Signed(text)
	if n < 0 {
		r.Bad("number", text)
	}
	return n
}

// Signed reads a decimal number, in the one form that is written.
func (r *Reader) Signed(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		r.Bad("number", text)
	}
	return n
}

// Millis reads what [Millis] writes.
func (r *Reader) Millis(text string) time.Duration {
	n := r.Number(text)
	if n > int64(LongestTime/time.Millisecond) {
		r.Bad("time", text)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// LongestTime is far beyond every lease and job, and far from overflow.
const LongestTime = 100 * 365 * 24 * time.Hour

// Instant reads what [Instant] writes.
func (r *Reader) Instant(text string) time.Time {
	sec, micros, ok := strings.Cut(text, ".")
	if !ok || len(micros) != 6 {
		r.Bad("time", text)
		return time.Time{}
	}
	s, u := r.Number(sec), r.Number(strings.TrimLeft(micros[:5], "0")+micros[5:])
	return time.Unix(s, u*1000).UTC()
}

// MaybeInstant reads what [MaybeInstant] writes.
func (r *Reader) MaybeInstant(text string) time.Time {
	if text == None {
		return time.Time{}
	}
	return r.Instant(text)
}

// Word reads what [Word] writes.
func (r *Reader) Word(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil || url.QueryEscape(plain) != text {
		r.Bad("word", text)
	}
	return plain
}

// Instant is the server's clock as seconds and six digits of microseconds.
func Instant(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// None is the value of what is unknown or does not apply.
const None = "-"

// MaybeInstant is [Instant], or [None] for the zero time.
func MaybeInstant(t time.Time) string {
	if t.IsZero() {
		return None
	}
	return Instant(t)
}

// Millis is d in whole milliseconds, rounded up.
func Millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Word escapes a text into one word, as web forms do.
func Word(s string) string { return url.QueryEscape(s) }

// TargetName is the name of the word for a target, in the texts of records and
// members that have one.
const TargetName = "target"

// TargetWord is that word.
func TargetWord(target string) string { return TargetName + "=" + Word(target) }

// Decode reads one JSON document of the registry: a sighting, or an entry of
// the log. Like the texts, it is never read in part: an unknown field is
// refused.
func Decode(text string, into any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if _, end := dec.Token(); err == nil && end != io.EOF {
		err = errors.New("more follows the document")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	return nil
}

// TextOf reads a reply to GET. Where there is no key the text is empty.
func TextOf(value any, err error) (string, error) {
	text, err := redis.String(value, err)
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return text, err
}
