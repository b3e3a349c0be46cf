// SPDX-License-Identifier: Apache-2.0

package out

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Screen returns the size of the terminal that w writes to. ok is false where w
// is no terminal. A terminal that does not say its size counts as 80 × 24.
func (e *Env) Screen(w io.Writer) (columns, rows int, ok bool) {
	if a, wrapped := w.(*answer); wrapped {
		w = a.Writer
	}
	if e.Size != nil {
		return e.Size(w)
	}
	fd, ok := Terminal(w)
	if !ok {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(fd)
	if err != nil || columns < 1 || rows < 1 {
		columns, rows = 80, 24
	}
	return columns, rows, true
}

// Colour is the escape sequence that a terminal gets before a text.
type Colour string

// Colours have a meaning: Bad is for what is wrong and for nothing else.
const (
	NoColour Colour = ""
	Bad      Colour = "\x1b[31m" // red
	Doubtful Colour = "\x1b[33m" // yellow: look at it
	Faint    Colour = "\x1b[2m"  // less important than the rest
)

// Paint returns a text in a colour.
func (c Colour) Paint(s string) string {
	if c == NoColour || s == "" {
		return s
	}
	return string(c) + s + "\x1b[0m"
}

// Colours reports whether what is written to w may be coloured: w is a terminal
// that knows colours, and nobody set NO_COLOR (see no-color.org).
func (e *Env) Colours(w io.Writer) bool {
	_, _, ok := e.Screen(w)
	return ok && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}

// Cut returns s, cut to at most that many columns of a terminal. Where it cuts,
// it puts "…". Colours are kept, and cost no columns.
func Cut(s string, columns int) string {
	if text.StringWidthWithoutEscSequences(s) <= columns {
		return s
	}
	return strings.TrimRight(text.Snip(s, columns, "…"), " ")
}

// CutMiddle is Cut that keeps the beginning and the end of a text. Names of
// keys often differ at their ends.
func CutMiddle(s string, columns int) string {
	if text.StringWidthWithoutEscSequences(s) <= columns || columns < 3 {
		return Cut(s, columns)
	}
	head := text.Trim(s, columns/2)
	room := columns - 1 - text.StringWidthWithoutEscSequences(head)
	runes := []rune(s)
	from := len(runes)
	for from > 0 && room >= text.RuneWidth(runes[from-1]) {
		from--
		room -= text.RuneWidth(runes[from])
	}
	return head + "…" + string(runes[from:])
}
