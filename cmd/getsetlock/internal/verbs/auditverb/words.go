// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

func holesWords(holes []census.Hole) string {
	if len(holes) == 0 {
		return ""
	}
	var blind time.Duration
	by := map[census.HoleReason]bool{}
	var reasons []string
	for _, h := range holes {
		blind += h.Until.Sub(h.From)
		if !by[h.Reason] {
			by[h.Reason] = true
			reasons = append(reasons, string(h.Reason))
		}
	}
	return fmt.Sprintf("; saw nothing for %s (%s)", blind.Round(time.Millisecond),
		strings.Join(reasons, ", "))
}

// unnamed is the address of the clients that polls saw.
const unnamed = "(unknown)"

func offsetWords(o census.Offset) string {
	if o.Writes == 0 {
		return "-"
	}
	text := intervalWords(o.Interval)
	if o.LeaseGuessed {
		text += " *"
	}
	return text
}

// intervalWords returns both ends, rounded outwards, since the interval shown
// must hold too.
func intervalWords(i offset.Interval) string {
	low, high := "?", "?"
	if i.Low != offset.NoLow {
		low = signed(i.Low.Truncate(offsetStep), i.Low, -offsetStep)
	}
	if i.High != offset.NoHigh {
		high = signed(i.High.Truncate(offsetStep), i.High, offsetStep)
	}
	return low + " … " + high
}

// offsetStep is the precision of offsets in a table.
const offsetStep = 10 * time.Microsecond

// signed writes a truncated duration. It moves it by one step if the truncation
// narrowed the interval.
func signed(cut, whole, step time.Duration) string {
	if step < 0 && cut > whole || step > 0 && cut < whole {
		cut += step
	}
	if cut > 0 {
		return "+" + cut.String()
	}
	return cut.String()
}

// unlessNone returns one of several durations, and a dash where there is none.
func unlessNone(count int64, d time.Duration) string {
	if count == 0 {
		return "-"
	}
	return out.Short(d)
}

// firstOf returns the likeliest of several dialects.
func firstOf(name string, others int) string {
	if others > 0 {
		name = fmt.Sprintf("%s +%d", name, others)
	}
	return out.Dashed(name)
}

// assumed names the assumptions of a clock's interval; empty: there is none.
func (a *auditAnswer) assumed() string {
	writes := int64(0)
	for _, w := range a.result.Evidence.Writers {
		writes += w.Offset.Writes
	}
	if writes == 0 {
		return ""
	}
	seen := "what each single write allows, from " + out.Count(writes, "write") +
		"; assumes the leases"
	if _, claimed := dialect.Claimed(a.gap); claimed {
		seen += fmt.Sprintf(", and that no attempt takes longer than %s", out.Short(dialect.Bound(a.gap)))
	} else {
		seen += "; no upper end without --gap"
	}
	return seen
}

// waitsWords says "unknown" and not "none" where no source could see failed
// attempts: only MONITOR shows them.
func waitsWords(e *census.Evidence) string {
	switch d := e.Waits; {
	case d.Count > 0:
		return fmt.Sprintf("%d; half took at most %s, 99 %% at most %s, the longest %s", d.Count,
			out.Short(d.P50), out.Short(d.P99), out.Short(d.Longest))
	case e.Covered(census.SourceMonitor).From.IsZero():
		return "unknown: only --monitor shows attempts that fail"
	}
	return "none seen"
}

func (a *auditAnswer) spreadWords() string {
	e := &a.result.Evidence
	if !slices.ContainsFunc(e.Writers, func(w census.Writer) bool { return w.Offset.Writes > 0 }) {
		return "unknown: no writer was identified (--monitor does that)"
	}
	if e.Spread.Sound() {
		return fmt.Sprintf("at least %s (proved), at most %s (guaranteed, of the clocks seen), from %s",
			out.Short(e.Spread.Proved), out.Short(e.Spread.Guaranteed),
			out.Count(e.Spread.Writes, "write"))
	}
	text := "at least " + out.Short(e.Spread.Apart)
	if e.Spread.Guessed {
		return text + " *; no upper bound while a lease is guessed or doubted"
	}
	return text + ", if no attempt takes longer than usual; no upper bound without --gap"
}

// serverWords says how far the old clients' clocks are off the server's, in one
// direction: at least, as far as it was seen, and at most, if that is claimed.
func serverWords(b census.Bound, of time.Duration) string {
	claim := "no claim"
	if value, claimed := dialect.Claimed(of); b.Span.Known() {
		claim = "at most " + spanWords(b.Span)
	} else if claimed {
		claim = fmt.Sprintf("the claim of %s is refuted", out.Short(value))
	}
	if b.Writes == 0 {
		return claim + "; no write of an old client was seen"
	}
	text := fmt.Sprintf("%s; at least %s, from %s", claim, out.Short(b.AtLeast),
		out.Count(b.Writes, "write"))
	switch {
	case b.Guessed:
		text += " *"
	case b.Unless != "":
		text += ", " + b.Unless
	}
	return text
}

func spanWords(s census.Span) string {
	switch {
	case !s.Known():
		return "unknown"
	case s.Value >= offset.NoHigh/2:
		return "unbounded"
	}
	text := out.Short(s.Value) + " (" + string(s.Basis) + ")"
	if s.Addr != "" {
		text += ", by " + s.Addr
	}
	if s.Key != "" {
		text += ", of " + out.Escaped(s.Key)
	}
	if s.Note != "" {
		text += "; " + s.Note
	}
	return text
}

func (a *auditAnswer) costLines() []string {
	var lines []string
	c := a.result.Cost
	if a.probe != nil && a.probe.Cost.Work > 0 && c.Elapsed > 0 {
		p := a.probe.Cost
		lines = append(lines, fmt.Sprintf(
			"probe: %s in %s, of which %s waiting for the server; slowest slice %s",
			out.Count(a.probe.Keys, "key"), out.Short(p.Elapsed), out.Short(p.Work), out.Short(p.Slowest)))
	}
	if c.Share > 0 {
		lines = append(lines, fmt.Sprintf(
			"looks: %d, which took %s of the server's time: %.2f %% of one core", c.Looks,
			out.Short(c.ServerTime), 100*c.Share))
	} else if c.Looks > 0 {
		lines = append(lines, fmt.Sprintf("looks: %d; their cost is unknown", c.Looks))
	}
	if m := c.Monitor; m != nil {
		text := fmt.Sprintf("monitor: %s, %s, %d lines, %d KiB", out.Count(m.Bursts, "burst"),
			out.Short(m.Time), m.Lines, m.Bytes>>10)
		if m.PingOn > 0 && m.PingOff > 0 {
			text += fmt.Sprintf("; a PING took %s with it and %s without", out.Short(m.PingOn),
				out.Short(m.PingOff))
		}
		if m.OpsOn > 0 && m.OpsOff > 0 {
			text += fmt.Sprintf("; %.0f commands a second with it and %.0f without", m.OpsOn, m.OpsOff)
		}
		lines = append(lines, text)
		for _, why := range m.Stopped {
			lines = append(lines, "monitor stopped: "+why)
		}
	}
	return lines
}

// aboutKey names the key of a finding in front of its sentence.
func aboutKey(f census.Finding) string {
	if f.Key == "" {
		return ""
	}
	return out.Shortened(out.Escaped(f.Key), 200) + ": "
}

// between returns a period of the server's clock in words.
func between(from, until time.Time) string {
	return from.UTC().Format("2006-01-02 15:04:05") + " to " + until.UTC().Format("15:04:05") + " UTC"
}
