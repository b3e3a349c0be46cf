package cli

import (
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/internal/rehearse"
)

// printRehearsal prints what was found: a line a group, what was sold, and the verdict in words.
func (e *Env) printRehearsal(res *rehearse.Result) {
	g := newGrid(left("group"), left("protocol"), right("clients"), right("acquired"), right("wait p50"),
		right("wait p99"), right("longest"), right("takeovers"), right("lost"), right("retries"), right("commands"), right("per sale"))
	for _, r := range res.Groups {
		g.add(r.Name, r.Protocol, r.Clients, r.Acquisitions, waited(r.WaitP50MS), waited(r.WaitP99MS), waited(r.WaitMaxMS),
			r.Takeovers, r.Lost, r.Retries, r.Commands, ratio(r.Commands, r.Sales))
	}
	e.print(g)
	fmt.Fprintf(e.Stdout, "\n%d orders: %d sold, %d refused for want of goods", res.Orders, res.Sales, res.Refused)
	if res.Unserved > 0 {
		fmt.Fprintf(e.Stdout, ", %d put aside", res.Unserved)
	}
	fmt.Fprintf(e.Stdout, "; %s\n", spent(res))
	e.printClocks(res)
	fmt.Fprintf(e.Stdout, "overlaps  %s\n", counted(res.Overlaps, res.OverlapsExcused))
	fmt.Fprintf(e.Stdout, "oversold  %s\n", counted(res.Oversold, res.OversoldExcused))
	for _, c := range res.Causes {
		fmt.Fprintf(e.Stdout, "excused: %s (%d overlaps, %d oversold)\n", c.Cause, c.Overlaps, c.Oversold)
	}
	fmt.Fprintf(e.Stdout, "\n%s\n", verdict(res))
}

// printClocks says what the machines did, if anything was wrong with them.
func (e *Env) printClocks(res *rehearse.Result) {
	c := res.Clocks
	if c.Preset == "" && c.SpreadMS == 0 {
		return
	}
	fmt.Fprintf(e.Stdout, "clocks    up to %v apart", within(c.SpreadMS))
	if c.ToldSpreadMS != nil {
		fmt.Fprintf(e.Stdout, " (the new clients are told %v)", within(*c.ToldSpreadMS))
	}
	fmt.Fprintf(e.Stdout, ", %s, %s", units(c.Steps, "step", "steps"), units(c.Stops, "standstill", "standstills"))
	if c.Stops > 0 {
		fmt.Fprintf(e.Stdout, " of up to %v", within(c.LongestStopMS))
		if c.ToldGapMS != nil {
			fmt.Fprintf(e.Stdout, " (told %v)", within(*c.ToldGapMS))
		}
	}
	fmt.Fprintln(e.Stdout)
}

func waited(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return within(*ms).String()
}

func ratio(n int64, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(of))
}

func spent(res *rehearse.Result) string {
	if res.VirtualMS == nil {
		return fmt.Sprintf("in %v on %s, seed %d", within(res.WallMS), res.Server, res.Seed)
	}
	return fmt.Sprintf("in %v of virtual time (%v here), seed %d", within(*res.VirtualMS), within(res.WallMS), res.Seed)
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
		bad = append(bad, fmt.Sprintf("%s sold that nobody had", units(n, "unit was", "units were")))
	}
	if n := res.Overlaps - res.OverlapsExcused; n > 0 {
		bad = append(bad, fmt.Sprintf("%s two or more worked on one product at once, for up to %v",
			units(n, "time", "times"), within(res.LongestMS)))
	}
	if res.Unserved > 0 {
		bad = append(bad, fmt.Sprintf("%s put aside because the product's key did not come free",
			units(res.Unserved, "order was", "orders were")))
	}
	if len(bad) > 0 {
		return "BAD: " + strings.Join(bad, "; ") + "."
	}
	if res.Oversold > 0 {
		return "WELL, by the rules: nothing was sold twice but where an excused overlap was."
	}
	return "WELL: every unit sold was there."
}

func units(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
