// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"cmp"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// liveView shows a watch while it lasts. On a terminal it draws a few lines
// anew every second; elsewhere it prints a plain line every few seconds.
type liveView struct {
	env   *out.Env
	live  *out.Live // nil: stderr is no terminal
	quiet bool
	total time.Duration // 0: no end
	begun time.Time
}

// liveWriters is the number of writers shown.
const liveWriters = 8

func newLiveView(e *out.Env, quiet bool, total time.Duration) *liveView {
	v := &liveView{env: e, quiet: quiet, total: total, begun: time.Now()}
	if _, _, ok := e.Screen(e.Stderr); ok && !quiet {
		v.live = out.NewLive(e, e.Stderr)
	}
	return v
}

// every returns the time between two drawings.
func (v *liveView) every() time.Duration {
	if v.live != nil {
		return time.Second
	}
	return out.ProgressEvery
}

func (v *liveView) show(r *audit.Result) {
	if v.live == nil {
		v.env.Say(v.quiet, "%s", v.line(r))
		return
	}
	columns, _, _ := v.env.Screen(v.env.Stderr)
	v.live.Draw(append(out.Wrapped(out.OneLine(v.line(r)), columns-1), writerLines(r, columns)...))
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

// roomForDialects is the width of a terminal that has room for the writers'
// dialects too.
const roomForDialects = 64

// writerLines returns lines for the first writers by address. In any other
// order the lines would jump about.
func writerLines(r *audit.Result, columns int) []string {
	var lines []string
	for _, w := range r.Evidence.Writers[:min(liveWriters, len(r.Evidence.Writers))] {
		dialect := ""
		if columns >= roomForDialects {
			dialect = fmt.Sprintf("%-12s ", w.Dialect)
		}
		lines = append(lines, out.OneLine(
			fmt.Sprintf("  %-22s %s%s", cmp.Or(w.Addr, unnamed), dialect, offsetWords(w.Offset))))
	}
	if more := len(r.Evidence.Writers) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return lines
}

// end erases the view, since the answer comes next.
func (v *liveView) end() {
	if v.live != nil {
		v.live.Clear()
	}
}
