// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
)

// pair is the two rehearsals of a page: of one seed, without a lock and with
// one.
type pair struct {
	without, with *rehearse.Result
	asked         *rehearse.Result // the one of the two that the command line names
	how           string           // command line that makes the page again
	made          time.Time
}

// compared is the protocol that a rehearsal without a lock is compared with.
const compared = "legacy"

// other returns the plan of the rehearsal that the page compares with: the same
// orders, programs and seed, without a lock, or with one where the plan has
// none.
func other(p rehearse.Plan) rehearse.Plan {
	if p.Protocol == "none" {
		p.Protocol = compared
	} else {
		p.Protocol, p.Overruns = "none", 0 // without leases no job can outlast one
	}
	return p
}

// checkReport refuses a page that could not be made or written, before the
// rehearsal begins.
func (f *rehearseFlags) checkReport() error {
	switch {
	case f.report == "":
		return nil
	case f.phases:
		return out.CheckReport(f.report)
	}
	f.plan.History = rehearse.AnyProduct
	if p := other(f.plan); p.Validate() != nil {
		return out.WrongUse("--report also rehearses --protocol %s: %w", p.Protocol, p.Validate())
	}
	return out.CheckReport(f.report)
}

// publish writes the page. It rehearses one protocol once more, for comparison.
func (f *rehearseFlags) publish(e *out.Env, ctx context.Context, res *rehearse.Result) error {
	if f.phases {
		return e.SaveReport(f.server.Quiet, f.report, phasesPage(res, f.how, e.Clock.Now()))
	}
	again := *f
	again.plan = other(f.plan)
	again.plan.History = res.History.SKU
	second, err := again.rehearse(e, ctx, "rehearsing --protocol "+again.plan.Protocol+" for the report")
	if err != nil {
		return err
	}
	p := pair{without: second, with: res, asked: res, how: f.how, made: e.Clock.Now()}
	if res.Protocol == "none" {
		p.without, p.with = res, second
	}
	return e.SaveReport(f.server.Quiet, f.report, p.page())
}

func (p *pair) page() report.Page {
	page := report.Page{
		Title: "getsetlock rehearse: without a lock, and with --protocol " + p.with.Protocol, Made: p.made,
		Verdict: p.verdict(), Bad: !p.asked.OK, Foot: "Made by: " + p.how,
		Words: []string{fmt.Sprintf("Both rehearsals have the same %d orders, stock, programs and seed (%d). A program reads the stock of a product, decides, and writes the stock back. If another program writes in between, the later write puts back what the earlier one took: these units are sold, and never leave the stock. They are red.",
			p.asked.Orders, p.asked.Seed)},
		Sections: []report.Section{historySection(p.without, "without a lock"),
			historySection(p.with, "with --protocol "+p.with.Protocol), p.sums(),
			groupSection(p.without, p.with)},
	}
	for _, c := range p.asked.Causes {
		page.Words = append(page.Words, excused(c))
	}
	return page
}

func (p *pair) verdict() string {
	text := fmt.Sprintf("Without a lock %s oversold; with --protocol %s %s.",
		out.Count(p.without.Oversold, "unit was", "units were"), p.with.Protocol, noneOr(p.with.Oversold))
	if !p.with.OK && p.with == p.asked {
		text += " " + verdict(p.with)
	}
	return text
}

func noneOr(n int) string {
	if n == 0 {
		return "none was"
	}
	return out.Count(n, "was", "were")
}

// historySection shows one product's history.
func historySection(res *rehearse.Result, title string) report.Section {
	f := res.History
	sku := out.Shortened(out.OneLine(out.Escaped(f.SKU)), 40)
	over := "nothing oversold"
	if f.Oversold > 0 {
		over = fmt.Sprintf("%d oversold", f.Oversold)
	}
	s := report.Section{
		Title: fmt.Sprintf("%s, %s: %s", sku, title, over),
		Words: fmt.Sprintf("%s. Of a stock of %d, %d units were sold and %d are left. The drawing has jobs %d to %d of %d. A bar is a program's work, from reading the stock to writing it back. The number at its left end is the stock that the program read. Times count from the first job shown.",
			report.Capital(rehearse.About(res.Protocol)), f.Stock, f.Sold, f.Left, f.First,
			f.First+len(f.Shown)-1, f.Jobs),
		Table: report.Table{Columns: []string{"program", "what became of it", "read", "wrote", "sold",
			"from, ms", "to, ms"}, Text: 2},
	}
	t := &report.Timeline{Name: fmt.Sprintf("Timeline of %s %s", sku, title), X: "ms",
		Together: "two programs work on the product at once", Plain: res.Protocol == "watch"}
	var names []string
	for _, j := range f.Shown {
		if !slices.Contains(names, j.Who) {
			names = append(names, j.Who)
		}
	}
	slices.SortFunc(names, byNumber)
	for _, name := range names {
		t.Rows = append(t.Rows, report.Row{Name: name})
	}
	stock := len(t.Rows)
	t.Rows = append(t.Rows, report.Row{Name: "stock"})
	begin := 0.0
	if len(f.Shown) > 0 {
		begin = f.Shown[0].ReadMS
	}
	var wrote []report.Mark
	for n, j := range f.Shown {
		lane, says := slices.Index(names, j.Who), saysJob(j)
		t.Rows[lane].Holds = append(t.Rows[lane].Holds, report.Span{
			From: j.ReadMS - begin, To: j.EndMS - begin, Says: says, Bad: j.Undone})
		t.Marks = append(t.Marks, report.Mark{Row: lane, At: j.ReadMS - begin, Label: strconv.Itoa(j.Read),
			Says: says, Bad: j.Undone})
		line := row(j.Who, fate(j), j.Read, "-", "-", tenths(j.ReadMS-begin), tenths(j.EndMS-begin))
		if j.WroteMS != nil {
			line[3], line[4] = strconv.Itoa(j.Wrote), strconv.Itoa(j.Units)
			wrote = append(wrote, report.Mark{
				Row: stock, At: *j.WroteMS - begin, Label: strconv.Itoa(j.Wrote), Says: says, Bad: j.Undone})
		}
		if j.Undone {
			s.Table.Bad = append(s.Table.Bad, n)
		}
		s.Table.Rows = append(s.Table.Rows, line)
	}
	slices.SortStableFunc(wrote, func(a, b report.Mark) int { return cmp.Compare(a.At, b.At) })
	t.Marks = append(t.Marks, wrote...)
	s.Figure = t
	return s
}

// byNumber orders programs by their number, which is their last word.
func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// tenths returns a time in milliseconds, to a tenth.
func tenths(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

// fate says in words what became of a job's sale.
func fate(j rehearse.Job) string {
	switch {
	case j.Died:
		return "the program died"
	case j.WroteMS == nil && j.Units == 0:
		return "nothing written"
	case j.Undone && j.UndoneBy != "":
		return fmt.Sprintf("oversold: %s put %s back", j.UndoneBy, out.Count(j.Units, "unit"))
	case j.Undone:
		return "oversold"
	}
	return "sold"
}

func saysJob(j rehearse.Job) string {
	text := fmt.Sprintf("%s read %d", j.Who, j.Read)
	if j.WroteMS != nil {
		text += fmt.Sprintf(" and wrote %d", j.Wrote)
	}
	return text + ": " + fate(j)
}

// sums compares both rehearsals in numbers.
func (p *pair) sums() report.Section {
	s := report.Section{Title: "Both rehearsals",
		Words: "All products. An overlap is two programs at work on one product at once. Where old clients share the lock, see the table below for their waits and those of the new clients.",
		Table: report.Table{Columns: []string{"what", "without a lock", p.with.Protocol}, Text: 1}}
	add := func(what string, value func(*rehearse.Result) any) {
		s.Table.Rows = append(s.Table.Rows, row(what, value(p.without), value(p.with)))
	}
	add("units oversold", func(r *rehearse.Result) any { return counted(r.Oversold, r.OversoldExcused) })
	add("overlaps", func(r *rehearse.Result) any { return counted(r.Overlaps, r.OverlapsExcused) })
	add("orders sold", func(r *rehearse.Result) any { return r.Sales })
	add("rejected: out of stock", func(r *rehearse.Result) any { return r.Refused })
	add("not processed", func(r *rehearse.Result) any { return r.Unserved })
	if p.with.VirtualMS != nil && p.without.VirtualMS != nil {
		add("virtual time", func(r *rehearse.Result) any { return out.Within(*r.VirtualMS) })
	}
	return s
}

// groupSection shows what the clients of each kind did.
func groupSection(all ...*rehearse.Result) report.Section {
	s := report.Section{Title: "The programs", Table: groupTable(all...)}
	var waits []report.Wait
	for _, r := range all {
		for _, g := range r.Groups {
			if g.WaitMaxMS != nil {
				waits = append(waits, report.Wait{Name: g.Name + ", " + g.Protocol, Half: spanOf(g.WonP50MS),
					Most: spanOf(g.WonP99MS), Longest: spanOf(g.WaitMaxMS),
					Tried: int64(g.Acquisitions + g.GaveUp), GaveUp: int64(g.GaveUp)})
			}
		}
	}
	if len(waits) > 0 {
		s.Figure, s.Legend = report.Waits(waits), report.WaitsLegend
	}
	return s
}

// spanOf returns a wait; negative: it had no end.
func spanOf(ms *float64) time.Duration {
	if ms == nil {
		return -1
	}
	return time.Duration(*ms * float64(time.Millisecond))
}
