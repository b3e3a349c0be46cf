package offset

import (
	"bufio"
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

// ObservedKind is the second word of a line.
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
	// Event, Args: a sum over the keys, before all other lines; package audit
	// defines it
	ObservedProbe ObservedKind = "probe"
)

// Observed is one event that was seen on a live server. An audit records it,
// and the audit and the simulation read it back. Fields that the kind does not
// use are zero.
type Observed struct {
	At     time.Time // by the server's clock, whole microseconds, UTC, 1970 to 2199
	Kind   ObservedKind
	Addr   string   // client's address as the server names it; "lua" inside a script
	DB     int      // number of the database
	Args   []string // command's name and arguments, bytes as sent; for a probe one document; at least one
	Key    string
	Value  string // bytes of the key
	Exists bool   // the key exists
	HasTTL bool
	TTL    time.Duration // whole milliseconds, not negative
	Event  string        // "set", "del", "expired" …
	For    time.Duration // whole microseconds; negative only in a step
	Reason string

	Name, Library, User string // of a client; empty where the server knows none
	Count               int64  // not negative
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
	line, err := o.appendLine(nil)
	if err != nil {
		return err.Error()
	}
	return string(line)
}

// appendLine appends the event's line without its end. There is exactly one
// line for an event. It fails for an event that could not be read back
// unchanged: a field is missing, out of range, or set although its kind has
// none.
func (o Observed) appendLine(to []byte) ([]byte, error) {
	line := to
	micros := o.At.UnixMicro()
	line = fmt.Appendf(line, "%d.%06d %s", micros/1e6, micros%1e6, o.Kind)
	text := func(s string) { line = appendQuoted(append(line, ' '), s) }
	number := func(n int64) { line = strconv.AppendInt(append(line, ' '), n, 10) }
	switch o.Kind {
	case ObservedCommand:
		text(o.Addr)
		number(int64(o.DB))
		for _, a := range o.Args {
			text(a)
		}
	case ObservedLook:
		text(o.Key)
		line = o.appendLooked(line)
	case ObservedEvent:
		text(o.Event)
		text(o.Key)
	case ObservedHold:
		text(o.Addr)
		text(o.Key)
		number(o.For.Microseconds())
	case ObservedStep:
		number(o.For.Microseconds())
	case ObservedGap:
		number(o.For.Microseconds())
		text(o.Reason)
	case ObservedClient:
		text(o.Addr)
		text(o.Name)
		text(o.Library)
		text(o.User)
	case ObservedStats:
		text(o.Event)
		number(o.Count)
	case ObservedProbe:
		text(o.Event)
		for _, a := range o.Args {
			text(a)
		}
	}
	if len(line)-len(to) > longestObserved {
		return to, fmt.Errorf("%w: its line would be longer than %d bytes", errNotWritable, longestObserved)
	}
	back, err := parseObserved(string(line[len(to):]))
	if err != nil {
		return to, fmt.Errorf("%w: %w", errNotWritable, err)
	}
	if !back.equal(o) {
		return to, fmt.Errorf("%w: a %s does not have one of these fields, or not with this precision",
			errNotWritable, o.Kind)
	}
	return line, nil
}

func (o Observed) appendLooked(line []byte) []byte {
	line = append(line, ' ')
	if o.Exists {
		line = appendQuoted(line, o.Value)
	} else {
		line = append(line, '-')
	}
	line = append(line, ' ')
	if !o.HasTTL {
		return append(line, '-')
	}
	return strconv.AppendInt(line, o.TTL.Milliseconds(), 10)
}

func (o Observed) equal(p Observed) bool {
	return o.At.Equal(p.At) && slices.Equal(o.Args, p.Args) && o.plain() == p.plain()
}

// plainFields are the fields that == can compare, by type.
type plainFields struct {
	texts   [9]string
	numbers [4]int64
	flags   [2]bool
}

// plain returns every field but At and Args.
func (o Observed) plain() plainFields {
	return plainFields{
		texts: [...]string{string(o.Kind), o.Addr, o.Key, o.Value, o.Event, o.Reason, o.Name, o.Library,
			o.User},
		numbers: [...]int64{int64(o.DB), int64(o.TTL), int64(o.For), o.Count},
		flags:   [...]bool{o.Exists, o.HasTTL},
	}
}

// ObservedWriter writes a record. Events may come in any order of their
// instants.
type ObservedWriter struct {
	to   io.Writer
	line []byte
}

// NewObservedWriter writes the header and returns the writer.
func NewObservedWriter(to io.Writer) (*ObservedWriter, error) {
	_, err := io.WriteString(to, observedHeader+"\n")
	return &ObservedWriter{to: to}, err
}

// Write writes one event, with one call of the writer below. An event that
// cannot be recorded leaves no trace in the record.
func (w *ObservedWriter) Write(o Observed) error {
	line, err := o.appendLine(w.line[:0])
	if err != nil {
		return err
	}
	w.line = append(line, '\n')
	_, err = w.to.Write(w.line)
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

// Line returns the number of the line that Next read last.
func (r *ObservedReader) Line() int { return r.line }

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
