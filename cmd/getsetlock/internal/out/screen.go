// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"io"
	"strings"
	"sync"

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

// PrintLine prints a line of text on stdout. A terminal gets it broken at
// blanks, the later rows indented by two; anything else gets it whole.
func (e *Env) PrintLine(line string) {
	columns, _, ok := e.Screen(e.Stdout)
	if !ok || text.StringWidthWithoutEscSequences(line) < columns {
		fmt.Fprintln(e.Stdout, line)
		return
	}
	fmt.Fprintln(e.Stdout, strings.Join(Wrapped(line, max(20, columns-3)), "\n  "))
}

// Live draws lines on a terminal over those that it drew before. Its methods
// are safe for concurrent use.
type Live struct {
	env *Env
	to  io.Writer

	mu    sync.Mutex
	drawn []string // what the next drawing has to erase
}

// NewLive returns a view that draws on w, which must be a terminal of e.
func NewLive(e *Env, w io.Writer) *Live { return &Live{env: e, to: w} }

// Draw replaces the lines that were drawn before. It cuts a line that is wider
// than the terminal, and says how many lines have no room. A line that wrapped
// would count as one and stay on the screen for good.
func (l *Live) Draw(lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	columns, rows, ok := l.env.Screen(l.to)
	if !ok {
		columns, rows = 80, 24
	}
	if most := max(1, rows-2); len(lines) > most {
		left := len(lines) - most
		lines = append(append([]string{}, lines[:most]...), fmt.Sprintf("and %d lines more", left))
	}
	// One write, so that no half of it is seen.
	var b strings.Builder
	b.WriteString(l.erase(columns))
	for _, line := range lines {
		line = Cut(line, columns-1)
		l.drawn = append(l.drawn, line)
		b.WriteString(line + "\n")
	}
	_, _ = io.WriteString(l.to, b.String())
}

// erase returns what erases the drawn lines. After the window was made
// narrower, a line that was drawn before may take several rows.
func (l *Live) erase(columns int) string {
	if len(l.drawn) == 0 {
		return ""
	}
	rows := 0
	for _, line := range l.drawn {
		width := text.StringWidthWithoutEscSequences(line)
		rows += max(1, (width+columns-1)/columns)
	}
	l.drawn = nil
	// The last row may hold what the user typed meanwhile, such as the ^C that
	// ends the view.
	return erasesRow + strings.Repeat("\x1b[1A\x1b[2K", rows)
}

// Clear erases the lines.
func (l *Live) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	columns, _, ok := l.env.Screen(l.to)
	if !ok {
		columns = 80
	}
	_, _ = io.WriteString(l.to, l.erase(columns))
}
