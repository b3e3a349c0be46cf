package auditverb

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// liveView shows a watch while it lasts. On a terminal it draws a few lines
// anew every second; elsewhere it prints a plain line every few seconds.
type liveView struct {
	out      io.Writer
	terminal bool
	total    time.Duration // 0: no end
	begun    time.Time

	mu    sync.Mutex
	drawn int // lines to erase before the next drawing
}

// liveWriters is the number of writers shown.
const liveWriters = 8

func newLiveView(e *out.Env, quiet bool, total time.Duration) *liveView {
	v := &liveView{out: e.Stderr, total: total, begun: time.Now()}
	_, v.terminal = out.Terminal(e.Stderr)
	if quiet {
		v.out, v.terminal = io.Discard, false
	}
	return v
}

// every returns the time between two drawings.
func (v *liveView) every() time.Duration {
	if v.terminal {
		return time.Second
	}
	return out.ProgressEvery
}

func (v *liveView) show(r *audit.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.terminal {
		fmt.Fprintln(v.out, "getsetlock: "+v.line(r))
		return
	}
	lines := append([]string{v.line(r)}, writerLines(r)...)
	v.clear()
	for _, l := range lines {
		// A longer line would wrap, count as one, and stay behind.
		fmt.Fprintln(v.out, out.Shortened(out.OneLine(l), 79))
	}
	v.drawn = len(lines)
}

// line returns the state of the watch in one line.
func (v *liveView) line(r *audit.Result) string {
	e := &r.Evidence
	passed := time.Since(v.begun).Round(time.Second).String()
	if v.total > 0 {
		passed += " of " + v.total.String()
	}
	bad := 0
	for _, f := range r.Findings {
		if f.Severity != census.SeverityNote {
			bad++
		}
	}
	return fmt.Sprintf("watching, %s: %d keys, %d writers, %d acquisitions, %d takeovers, clock spread at least %s, %d findings",
		passed, len(e.Keys), len(e.Writers), e.Counts.Acquisitions, e.Counts.Takeovers,
		out.Short(e.Spread.Apart), bad)
}

// writerLines returns lines for the first writers by address. In any other
// order the lines would jump about.
func writerLines(r *audit.Result) []string {
	var lines []string
	for _, w := range r.Evidence.Writers[:min(liveWriters, len(r.Evidence.Writers))] {
		lines = append(lines, fmt.Sprintf("  %-22s %-12s %s", nobody(w.Addr), w.Dialect,
			offsetWords(w.Offset)))
	}
	if more := len(r.Evidence.Writers) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return lines
}

// clear erases the lines that were drawn.
func (v *liveView) clear() {
	if v.drawn > 0 {
		// The last line may hold what the user typed meanwhile, such as the ^C
		// that ends the watch.
		fmt.Fprint(v.out, "\r\x1b[2K"+strings.Repeat("\x1b[1A\x1b[2K", v.drawn))
	}
	v.drawn = 0
}

// end erases the view, since the answer comes next.
func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
}
