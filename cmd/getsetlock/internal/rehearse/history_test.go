// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// shown rehearses with a history.
func shown(change func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Acquisitions, p.History = 300, AnyProduct
		change(p)
	}
}

// The units of overwritten sales are exactly those that the verdict counts as
// oversold, whichever of two equal writes a program had read.
func TestUndoneSalesAddUpToOversold(t *testing.T) {
	oversold := 0
	for _, protocol := range raced.Few([]string{"none", "watch", "legacy"}) {
		for seed := range uint64(3) {
			res, b := booked(t, shown(func(p *Plan) { p.Protocol, p.Seed = protocol, seed }))
			jobs := b.products[res.History.SKU].jobs()
			kept, undone := standing(jobs, res.History.Left), 0
			for _, h := range jobs {
				if h.job.wroteAt > 0 && !kept[h] {
					undone += h.units
				}
			}
			if undone != res.History.Oversold || res.History.Jobs != len(jobs) {
				t.Errorf("%s, seed %d: %d units undone, %+v", protocol, seed, undone, res.History)
			}
			oversold += undone
		}
	}
	if oversold == 0 {
		t.Error("nothing was oversold without a lock")
	}
}

func TestHistoryShowsTheFirstOversale(t *testing.T) {
	res := rehearse(t, shown(func(p *Plan) { p.Protocol = "none" }))
	f := res.History
	undone := 0
	for n, j := range f.Shown {
		if n > 0 && j.ReadMS < f.Shown[n-1].ReadMS || j.WroteMS != nil && (*j.WroteMS < j.ReadMS ||
			j.Read-j.Wrote != j.Units) || j.Who == "" {
			t.Errorf("%+v", j)
		}
		if j.Undone {
			undone++
			if j.UndoneBy == "" || j.UndoneBy == j.Who || n > 2 && undone == 1 {
				t.Errorf("job %d: %+v", n, j)
			}
		}
	}
	if undone == 0 || len(f.Shown) != mostShown || f.Oversold == 0 || f.Stock == 0 {
		t.Errorf("%+v", f)
	}
	// The other run of a page shows the same product.
	res = rehearse(t, shown(func(p *Plan) { p.History = f.SKU }))
	if res.History.SKU != f.SKU || res.History.Oversold != 0 || res.History.Stock != f.Stock {
		t.Errorf("%+v", res.History)
	}
	// A death would be a pause of a whole lease, 10 s.
	if all := res.History.Shown; len(all) != mostShown || all[len(all)-1].EndMS-all[0].ReadMS > 2000 {
		t.Errorf("%+v", all)
	}
	for n, j := range res.History.Shown[1:] {
		if before := res.History.Shown[n]; j.ReadMS < before.EndMS {
			t.Errorf("under a lock %+v overlaps %+v", j, before)
		}
	}
}
