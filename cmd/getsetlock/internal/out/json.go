package out

import (
	"encoding/json"
	"fmt"
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

// PrintJSON prints the answer as one JSON document.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return unprinted(err)
	}
	return nil
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

// ClaimMillis returns a field of [dialect.Terms] in milliseconds, and nil where
// nobody claimed it.
func ClaimMillis(claim time.Duration) *json.Number {
	d, known := dialect.Claimed(claim)
	if !known {
		return nil
	}
	return new(Millis(d))
}
