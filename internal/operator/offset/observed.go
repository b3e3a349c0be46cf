// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// observedHeader is the first line of every record. Another number means
// another format.
const observedHeader = "getsetlock.observed/1"

// longestObserved is the longest line in bytes, so that a reader's memory is
// bounded too.
const longestObserved = 1 << 20

// ObservedKind says what was observed.
type ObservedKind string

// The kinds, with the fields of Observed that they use besides At.
const (
	// Addr, DB, Args: a command the server executed, as MONITOR shows it
	ObservedCommand ObservedKind = "cmd"
	ObservedLook    ObservedKind = "look"  // Key, Value if Exists, TTL if HasTTL: one look at a key
	ObservedEvent   ObservedKind = "event" // Event, Key: a keyspace event, dated when it was received
	ObservedHold    ObservedKind = "hold"  // Addr, Key, For: a hold that began at At, as measured
	// For: how far the server's clock moved against the observer's elapsed time
	ObservedStep ObservedKind = "step"
	ObservedGap  ObservedKind = "gap" // For, Reason: nothing was recorded for so long from At on

	// Addr, Name, Library, User: the client of a connection, as far as the
	// server knows
	ObservedClient ObservedKind = "client"
	// Event, Count: how often a command was called, as the server counts
	ObservedStats ObservedKind = "stats"
)

// observedKinds are all kinds.
var observedKinds = []ObservedKind{ObservedCommand, ObservedLook, ObservedEvent, ObservedHold, ObservedStep,
	ObservedGap, ObservedClient, ObservedStats}

// Observed is one event that was seen on a live server. An audit records it,
// and the audit and the simulation read it back. Fields that the kind does not
// use are zero. In JSON, a byte of a text is a character.
type Observed struct {
	At   time.Time    `json:"at"` // by the server's clock, whole microseconds, UTC, 1970 to 2199
	Kind ObservedKind `json:"kind"`
	Addr string       `json:"addr,omitempty"` // client's address as the server names it; "lua" inside a script
	DB   int          `json:"db,omitempty"`   // number of the database
	// Args are a command's name and arguments, bytes as sent.
	Args   []string      `json:"args,omitempty"`
	Key    string        `json:"key,omitempty"`
	Value  string        `json:"value,omitempty"`  // bytes of the key
	Exists bool          `json:"exists,omitempty"` // the key exists
	HasTTL bool          `json:"has_ttl,omitempty"`
	TTL    time.Duration `json:"ttl_ns,omitempty"` // whole milliseconds, not negative
	Event  string        `json:"event,omitempty"`  // "set", "del", "expired" …
	For    time.Duration `json:"for_ns,omitempty"` // whole microseconds; negative only in a step
	Reason string        `json:"reason,omitempty"`

	// Of a client; empty where the server knows none.
	Name    string `json:"name,omitempty"`
	Library string `json:"library,omitempty"`
	User    string `json:"user,omitempty"`

	Count int64 `json:"count,omitempty"` // not negative
}

// ObservedError names the line that cannot be read, counted from 1, and the
// reason.
type ObservedError struct {
	Line   int
	Reason string
}

func (e *ObservedError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// errNotWritable is wrapped by errors about events that have no line.
var errNotWritable = errors.New("event can't be recorded")

// String returns the event's line without its end, or for an event without a
// line the error.
func (o Observed) String() string {
	line, err := o.line()
	if err != nil {
		return err.Error()
	}
	return string(line)
}

// line returns the event's line without its end. It fails for an event that
// could not be read back unchanged, or that nothing can have observed.
func (o Observed) line() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotWritable, err)
	}
	o = o.mapped(textOf)
	o.At = o.At.UTC()
	line, err := json.Marshal(o)
	if err != nil || len(line) > longestObserved {
		return nil, fmt.Errorf("%w: its line would be longer than %d bytes", errNotWritable, longestObserved)
	}
	return line, nil
}

// The bounds of a record: instants to the end of 2199, spans of a century.
const (
	lastObservedSecond  = 7_258_118_399
	longestObservedSpan = 100 * 366 * 24 * time.Hour
)

// check refuses what cannot have been observed.
func (o Observed) check() error {
	switch at := o.At.Unix(); {
	case !slices.Contains(observedKinds, o.Kind):
		return fmt.Errorf("there is no kind %q", o.Kind)
	case o.At.Nanosecond()%1000 != 0 || at < 0 || at > lastObservedSecond:
		return fmt.Errorf("the instant %v is not from 1970 to 2199 in whole microseconds", o.At)
	case o.Kind == ObservedCommand && len(o.Args) == 0:
		return fmt.Errorf("a %s without arguments", o.Kind)
	case o.DB < 0 || o.Count < 0:
		return fmt.Errorf("a %s with a number below zero", o.Kind)
	case !o.saidByServers():
		return fmt.Errorf("a %s with a time that no server says", o.Kind)
	case !o.Exists && (o.Value != "" || o.HasTTL):
		return errors.New("a missing key has a value or a TTL")
	}
	return nil
}

// saidByServers reports whether both times are in their bounds.
func (o Observed) saidByServers() bool {
	least := time.Duration(0)
	if o.Kind == ObservedStep {
		least = -longestObservedSpan
	}
	return within(o.TTL, 0, time.Millisecond) && (o.HasTTL || o.TTL == 0) &&
		within(o.For, least, time.Microsecond)
}

// within reports whether a span is a multiple of step, from least to a century.
func within(d, least, step time.Duration) bool {
	return d%step == 0 && d >= least && d <= longestObservedSpan
}

// parseObserved reads what line wrote, and refuses any other spelling of it.
func parseObserved(line string) (o Observed, err error) {
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return Observed{}, fmt.Errorf("not the JSON of an event: %w", err)
	}
	o = o.mapped(bytesOf)
	again, err := o.line()
	if err == nil && string(again) != line {
		err = fmt.Errorf("an audit writes it as %s", again)
	}
	return o, err
}

// mapped returns the event with other texts.
func (o Observed) mapped(f func(string) string) Observed {
	o.Args = slices.Clone(o.Args)
	for i := range o.Args {
		o.Args[i] = f(o.Args[i])
	}
	for _, text := range []*string{&o.Addr, &o.Key, &o.Value, &o.Event, &o.Reason, &o.Name, &o.Library,
		&o.User} {
		*text = f(*text)
	}
	return o
}

// textOf makes a character of each byte, since JSON has no bytes.
func textOf(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		b.WriteRune(rune(bytes[i]))
	}
	return b.String()
}

// bytesOf is the inverse of textOf.
func bytesOf(text string) string {
	var bytes []byte
	for _, c := range text {
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}

// ObservedWriter writes a record. Events may come in any order of their
// instants.
type ObservedWriter struct{ to io.Writer }

// NewObservedWriter writes the header and returns the writer.
func NewObservedWriter(to io.Writer) (*ObservedWriter, error) {
	_, err := io.WriteString(to, observedHeader+"\n")
	return &ObservedWriter{to: to}, err
}

// Write writes one event, with one call of the writer below. An event that
// cannot be recorded leaves no trace in the record.
func (w *ObservedWriter) Write(o Observed) error {
	line, err := o.line()
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(line, '\n'))
	return err
}

// ObservedReader reads a record strictly: what a writer would not have written
// is an error.
type ObservedReader struct {
	from *bufio.Reader
	line int
	err  error
}

// NewObservedReader reads the header. It fails with a *ObservedError for
// another format or version, otherwise with the reader's own error.
func NewObservedReader(from io.Reader) (*ObservedReader, error) {
	r := &ObservedReader{from: bufio.NewReaderSize(from, 64<<10)}
	header, err := r.next()
	switch {
	case err == io.EOF:
		return nil, &ObservedError{1, "the record is empty; it begins with " + observedHeader}
	case err != nil:
		return nil, err
	case strings.HasPrefix(header, "getsetlock.observed/") && header != observedHeader:
		return nil, &ObservedError{1, "version " + strconv.Quote(header) + " is not " + observedHeader}
	case header != observedHeader:
		return nil, &ObservedError{1, "not a record of observed events: it begins with " + observedHeader}
	}
	return r, nil
}

// Next returns the next event, io.EOF after the last, and a *ObservedError for
// a broken line. After an error it always returns that error: nothing after a
// broken line can be trusted.
func (r *ObservedReader) Next() (Observed, error) {
	if r.err != nil {
		return Observed{}, r.err
	}
	line, err := r.next()
	if err != nil {
		r.err = err
		return Observed{}, err
	}
	o, err := parseObserved(line)
	if err != nil {
		r.err = &ObservedError{r.line, err.Error()}
		return Observed{}, r.err
	}
	return o, nil
}

// next reads a whole line. A line without an end was cut off, by a crash or a
// full disk.
func (r *ObservedReader) next() (string, error) {
	var whole []byte
	for {
		part, err := r.from.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case len(whole) > longestObserved+1:
			return "", &ObservedError{r.line + 1, fmt.Sprintf("longer than %d bytes", longestObserved)}
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(whole) == 0:
			return "", io.EOF
		case err == io.EOF:
			return "", &ObservedError{r.line + 1, "cut off: no end of line"}
		case err != nil:
			return "", err
		}
		r.line++
		return string(whole[:len(whole)-1]), nil
	}
}

// ReadHolds reads a record and returns the holds in it, in its order: a list
// for simulate.ListOf.
func ReadHolds(from io.Reader) ([]time.Duration, error) {
	r, err := NewObservedReader(from)
	if err != nil {
		return nil, err
	}
	var out []time.Duration
	for {
		o, err := r.Next()
		switch {
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, err
		case o.Kind == ObservedHold:
			out = append(out, o.For)
		}
	}
}
