// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"strings"
	"time"
)

// Short returns a duration rounded to milliseconds, or to microseconds below a
// second.
func Short(d time.Duration) string {
	switch {
	case d <= -time.Second || d >= time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// Within rounds a number of milliseconds to the precision that a reader can
// use.
func Within(ms float64) time.Duration {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

// Rounded returns a duration to the tenth of a second, or coarser where it is
// long.
func Rounded(d time.Duration) string {
	if days := d.Abs() / (24 * time.Hour); days >= 10 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	if d.Abs() >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Shortened returns s, cut to at most that many characters.
func Shortened(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// Wrapped breaks text at blanks into lines of at most that many characters.
func Wrapped(text string, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Dashed returns s, or a dash where s is empty.
func Dashed(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Count returns how many of a thing there are: "1 lock", "2 locks". many is for
// words that do not just get an s.
func Count[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) == 0:
		return fmt.Sprintf("%d %ss", n, one)
	}
	return fmt.Sprintf("%d %s", n, many[0])
}
