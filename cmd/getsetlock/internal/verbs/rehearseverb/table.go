// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
)

// printRehearsal prints the result: a line for each group, what was sold, and
// the verdict.
func printRehearsal(e *out.Env, res *rehearse.Result) {
	e.PrintTable(groupTable(res))
	printPhases(e, res)
	fmt.Fprintf(e.Stdout, "\n%d orders: %d sold, %d rejected: out of stock", res.Orders, res.Sales,
		res.Refused)
	if res.Unserved > 0 {
		fmt.Fprintf(e.Stdout, ", %d not processed", res.Unserved)
	}
	fmt.Fprintf(e.Stdout, "; %s\n", spent(res))
	printClocks(e, res)
	fmt.Fprintf(e.Stdout, "overlaps  %s\n", counted(res.Overlaps, res.OverlapsExcused))
	if res.Overlaps > 0 && len(res.Groups) > 1 {
		fmt.Fprintf(e.Stdout, "  between old clients   %d, %d of them excused\n", res.Overlaps-res.WithNew,
			res.OverlapsExcused-res.WithNewExcused)
		fmt.Fprintf(e.Stdout, "  with a new client     %d, %d of them excused\n", res.WithNew,
			res.WithNewExcused)
	}
	fmt.Fprintf(e.Stdout, "oversold  %s\n", counted(res.Oversold, res.OversoldExcused))
	for _, c := range res.Causes {
		fmt.Fprintf(e.Stdout, "excused: %s (%d overlaps, %d oversold)\n", c.Cause, c.Overlaps, c.Oversold)
	}
	fmt.Fprintf(e.Stdout, "\n%s\n", verdict(res))
}

// row returns the cells of a table's row.
func row(cells ...any) (texts []string) {
	for _, c := range cells {
		texts = append(texts, fmt.Sprint(c))
	}
	return texts
}

// groupTable says what the clients of each kind did.
func groupTable(all ...*rehearse.Result) report.Table {
	t := report.Table{Text: 2, Columns: []string{"group", "protocol", "clients", "acquired", "wait p50",
		"wait p99", "longest", "takeovers", "lost", "retries", "commands", "per sale"}}
	for _, res := range all {
		for _, g := range res.Groups {
			t.Rows = append(t.Rows, row(g.Name, g.Protocol, g.Clients, g.Acquisitions, waited(g.WaitP50MS),
				waited(g.WaitP99MS), waited(g.WaitMaxMS), g.Takeovers, g.Lost, g.Retries, g.Commands,
				ratio(g.Commands, g.Sales)))
		}
	}
	return t
}

// phaseTable says what happened in each phase.
func phaseTable(res *rehearse.Result) report.Table {
	t := report.Table{Text: 1, Columns: []string{"phase", "from", "to", "old clients", "acquired", "by old",
		"wait p50", "wait p99", "overlaps", "with new", "excused", "lost", "commands", "per lock", "extra"}}
	for n, p := range res.Phases {
		t.Rows = append(t.Rows, row(p.Phase, hours(p.FromMS), hours(p.ToMS), p.OldClients, p.Acquisitions,
			p.OldAcquisitions, waited(p.WaitP50MS), waited(p.WaitP99MS), p.Overlaps, p.WithNew,
			p.OverlapsExcused, p.Lost, known("%.1f", p.CommandsPerAcquisition),
			known("%d", p.LockCommands), known("%d", p.ExtraCommands)))
		if p.Overlaps > p.OverlapsExcused {
			t.Bad = append(t.Bad, n)
		}
	}
	return t
}

// printPhases prints a line for each phase of the fleet, what the gates
// refused, and how many old clients were shut out.
func printPhases(e *out.Env, res *rehearse.Result) {
	if len(res.Phases) == 0 {
		return
	}
	fmt.Fprintln(e.Stdout)
	e.PrintTable(phaseTable(res))
	fmt.Fprintln(e.Stdout)
	for _, r := range res.Refusals {
		word := "refused, as it should be"
		if !r.Expected {
			word = "REFUSED"
		}
		fmt.Fprintf(e.Stdout, "at %s the step to %s was %s (%s): %s\n", hours(r.AtMS), r.To, word,
			strings.Join(r.Rules, ", "), r.Detail)
	}
	if res.GaveUp > 0 {
		fmt.Fprintf(e.Stdout, "%s shut out, and gave up after waiting\n",
			out.Count(res.GaveUp, "old client was", "old clients were"))
	}
	for _, t := range res.Trouble {
		fmt.Fprintf(e.Stdout, "TROUBLE: %s\n", t)
	}
}

// known returns a number for a table, and "-" where it is unknown.
func known[N int64 | float64](format string, n *N) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf(format, *n)
}

// hours returns a moment of a long run, to the second.
func hours(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
}

// printClocks prints what the machines' clocks did, if any was wrong.
func printClocks(e *out.Env, res *rehearse.Result) {
	c := res.Clocks
	if c.Preset == "" && c.SpreadMS == 0 {
		return
	}
	fmt.Fprintf(e.Stdout, "clocks    spread up to %v", out.Within(c.SpreadMS))
	if c.ToldSpreadMS != nil {
		fmt.Fprintf(e.Stdout, " (the new clients are told %v)", out.Within(*c.ToldSpreadMS))
	}
	fmt.Fprintf(e.Stdout, ", %s, %s", out.Count(c.Steps, "step"), out.Count(c.Stops, "pause"))
	if c.Stops > 0 {
		fmt.Fprintf(e.Stdout, " of up to %v", out.Within(c.LongestStopMS))
		if c.ToldGapMS != nil {
			fmt.Fprintf(e.Stdout, " (told %v)", out.Within(*c.ToldGapMS))
		}
	}
	fmt.Fprintln(e.Stdout)
}

func waited(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return out.Within(*ms).String()
}

func ratio(n int64, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(of))
}

func spent(res *rehearse.Result) string {
	if res.VirtualMS == nil {
		return fmt.Sprintf("in %v on %s, seed %d", out.Within(res.WallMS), res.Server, res.Seed)
	}
	return fmt.Sprintf("in %v of virtual time (%v here), seed %d", out.Within(*res.VirtualMS),
		out.Within(res.WallMS), res.Seed)
}

func counted(all, excused int) string {
	if excused == 0 {
		return fmt.Sprint(all)
	}
	return fmt.Sprintf("%d, %d of them excused", all, excused)
}

// verdict says in words what the exit code says.
func verdict(res *rehearse.Result) string {
	var bad []string
	if n := res.Oversold - res.OversoldExcused; n > 0 {
		bad = append(bad, fmt.Sprintf("%s oversold", out.Count(n, "unit was", "units were")))
	}
	if n := res.Overlaps - res.OverlapsExcused; n > 0 {
		bad = append(bad, fmt.Sprintf("%s two or more programs worked on one product at once, for up to %v",
			out.Count(n, "time"), out.Within(res.LongestMS)))
	}
	if res.Unserved > 0 {
		bad = append(bad, fmt.Sprintf("%s not processed, because the product's key did not come free",
			out.Count(res.Unserved, "order was", "orders were")))
	}
	bad = append(bad, res.Trouble...)
	for _, r := range res.Refusals {
		if !r.Expected {
			bad = append(bad, fmt.Sprintf("the gate to %s stayed closed", r.To))
		}
	}
	if len(bad) > 0 {
		return "BAD: " + strings.Join(bad, "; ") + "."
	}
	if res.Oversold > 0 {
		return "OK by the rules: only excused overlaps led to overselling."
	}
	return "OK: nothing was oversold."
}
