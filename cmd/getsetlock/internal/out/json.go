// SPDX-License-Identifier: Apache-2.0

package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// JSONFlag defines --json.
func JSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print one JSON document instead of a table")
}

// NoBound is a duration that is null in JSON.
const NoBound time.Duration = math.MaxInt64

// PrintJSON prints the answer as one JSON document. It takes the fields that
// have a json tag, and writes a duration as [Millis] and a time as [Instant]
// say. A number has five decimals at most. No list is null. A nil pointer is
// null, and so is a duration without a bound. A value with a method JSON is
// replaced by what that returns.
//
// The tag answer has more to say about a field: "null" makes its zero value
// null, "bytes" writes text as [Escaped] does, "claim" takes a duration for a
// field of [dialect.Terms], "text" prints its String, "inline" takes the fields
// of a struct for fields of the outer one, and "plain" leaves it to
// encoding/json.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(printed(reflect.ValueOf(v), "")); err != nil {
		return unprinted(err)
	}
	return nil
}

// printed returns a value as encoding/json takes it. how is its tag answer.
func printed(v reflect.Value, how string) any {
	if !v.IsValid() || strings.Contains(how, "null") && v.IsZero() {
		return nil
	}
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		return printed(v.Elem(), how)
	}
	switch x := v.Interface().(type) {
	case interface{ JSON() any }:
		return printed(reflect.ValueOf(x.JSON()), "")
	case time.Time:
		return Instant(x)
	case time.Duration:
		return duration(x, how)
	case json.Number:
		return x
	}
	return composed(v, how)
}

// composed returns a list, a map, a struct or a single value.
func composed(v reflect.Value, how string) any {
	switch kind, whole := v.Kind(), isWhole(how); {
	case kind == reflect.Slice:
		list := make([]any, v.Len()) // no list is null
		for i := range list {
			list[i] = printed(v.Index(i), how)
		}
		return list
	case kind == reflect.Map && !whole:
		values := map[string]any{} // encoding/json sorts its keys
		for key, value := range v.Seq2() {
			values[fmt.Sprint(key)] = printed(value, how)
		}
		return values
	case kind == reflect.Struct && !whole:
		return fieldsOf(v)
	}
	return single(v, how)
}

// object is a JSON object whose members keep their order.
type object []struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:", m.name)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// fieldsOf returns the fields of a struct, those of embedded structs too.
func fieldsOf(v reflect.Value) object {
	all := object{}
	for f, field := range v.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && (f.Anonymous || f.Tag.Get("answer") == "inline"):
			if field.Kind() == reflect.Pointer && field.IsNil() {
				field = reflect.New(f.Type.Elem())
			}
			all = append(all, fieldsOf(reflect.Indirect(field))...)
		case name != "" && name != "-" && (options != "omitempty" || !field.IsZero()):
			all = append(all, object{{name, printed(field, f.Tag.Get("answer"))}}...)
		}
	}
	return all
}

// isWhole reports whether a value is printed as one, whatever is in it.
func isWhole(how string) bool { return strings.Contains(how, "plain") || strings.Contains(how, "text") }

// duration returns a duration in milliseconds, or null.
func duration(d time.Duration, how string) any {
	known := d != math.MinInt64 && d != NoBound
	if strings.Contains(how, "claim") {
		d, known = dialect.Claimed(d)
	}
	if !known {
		return nil
	}
	return Millis(d)
}

// single returns a value as encoding/json takes it.
func single(v reflect.Value, how string) any {
	switch {
	case strings.Contains(how, "plain"):
		return v.Interface()
	case strings.Contains(how, "text"):
		return fmt.Sprint(v.Interface())
	case v.Kind() == reflect.Float64:
		return math.Round(v.Float()*1e5) / 1e5
	case v.Kind() == reflect.String && strings.Contains(how, "bytes"):
		return Escaped(v.String())
	case v.Kind() == reflect.String:
		return v.String()
	}
	if named, ok := v.Interface().(fmt.Stringer); ok {
		return named.String()
	}
	return v.Interface()
}

// Millis returns a duration as fields ending in _ms have it: a number of
// milliseconds with at most three decimals.
func Millis(d time.Duration) json.Number {
	text := strconv.FormatFloat(float64(d.Round(time.Microsecond))/float64(time.Millisecond), 'f', 3, 64)
	return json.Number(strings.TrimRight(strings.TrimRight(text, "0"), "."))
}

// Instant returns a time as JSON fields have it: RFC 3339, UTC, milliseconds.
// It returns nil for the zero time and for years that RFC 3339 cannot write:
// before 0 and after 9999.
func Instant(t time.Time) *string {
	t = t.UTC()
	if t.IsZero() || t.Year() > 9999 || t.Year() < 0 {
		return nil
	}
	s := t.Format("2006-01-02T15:04:05.000Z07:00")
	return &s
}

// Escaped makes bytes printable. Bytes that are not UTF-8, control characters
// and unprintable characters become \xNN; a backslash becomes two, so that no
// two names look the same.
func Escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r < ' ', r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\\':
			b.WriteString(`\\`)
		case !strconv.IsPrint(r):
			for i := range n {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			}
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Unescaped is the inverse of Escaped. A backslash in front of anything else
// stands for itself.
func Unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		rest := s[i:]
		switch {
		case strings.HasPrefix(rest, `\\`):
			b.WriteByte('\\')
			i++
		case len(rest) >= 4 && rest[:2] == `\x`:
			n, err := strconv.ParseUint(rest[2:4], 16, 8)
			if err != nil {
				b.WriteByte('\\')
				continue
			}
			b.WriteByte(byte(n))
			i += 3
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
