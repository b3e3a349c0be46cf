package rehearse

import (
	"testing"
	"testing/synctest"
	"time"
)

// filmed rehearses with a film, and returns the book too.
func filmed(t *testing.T, change func(*Plan)) (*Result, *book) {
	t.Helper()
	p := DefaultPlan()
	p.Acquisitions, p.Lease, p.Film = 300, 10*time.Second, AnyProduct
	change(&p)
	var res *Result
	var b *book
	synctest.Test(t, func(t *testing.T) {
		var err error
		if res, err = rehearseEmbedded(t.Context(), p, func(all *book) { b = all }); err != nil {
			t.Fatal(err)
		}
	})
	return res, b
}

// The units of overwritten sales are exactly those that the verdict counts as
// oversold, whichever of two equal writes a program had read.
func TestUndoneSalesAddUpToOversold(t *testing.T) {
	oversold := 0
	for _, protocol := range few([]string{"legacy", "watch", "none"}) {
		for seed := range uint64(3) {
			res, b := filmed(t, func(p *Plan) { p.Protocol, p.Seed = protocol, seed })
			var jobs []*hold
			for _, h := range b.holds[res.Film.SKU] {
				if h.scene.readAt > 0 {
					jobs = append(jobs, h)
				}
			}
			kept, undone := standing(jobs, res.Film.Left), 0
			for _, h := range jobs {
				if h.scene.wroteAt > 0 && !kept[h] {
					undone += h.units
				}
			}
			if undone != res.Film.Oversold || res.Film.Jobs != len(jobs) {
				t.Errorf("%s, seed %d: %d units undone, %+v", protocol, seed, undone, res.Film)
			}
			oversold += undone
		}
	}
	if oversold == 0 {
		t.Error("nothing was oversold without a lock")
	}
}

func TestFilmShowsTheFirstOversale(t *testing.T) {
	res, _ := filmed(t, func(p *Plan) { p.Protocol = "none" })
	f := res.Film
	undone := 0
	for n, j := range f.Scenes {
		if n > 0 && j.ReadMS < f.Scenes[n-1].ReadMS || j.WroteMS != nil && (*j.WroteMS < j.ReadMS ||
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
	if undone == 0 || len(f.Scenes) != mostScenes || f.Oversold == 0 || f.Stock == 0 {
		t.Errorf("%+v", f)
	}
	// The other run of a page shows the same product.
	res, _ = filmed(t, func(p *Plan) { p.Film = f.SKU })
	if res.Film.SKU != f.SKU || res.Film.Oversold != 0 || res.Film.Stock != f.Stock {
		t.Errorf("%+v", res.Film)
	}
	// A death would be a pause of a whole lease, 10 s.
	if all := res.Film.Scenes; len(all) != mostScenes || all[len(all)-1].EndMS-all[0].ReadMS > 2000 {
		t.Errorf("%+v", all)
	}
	for n, j := range res.Film.Scenes[1:] {
		if before := res.Film.Scenes[n]; j.ReadMS < before.EndMS {
			t.Errorf("under a lock %+v overlaps %+v", j, before)
		}
	}
}

func TestResultWithoutAFilmHasNone(t *testing.T) {
	if res := rehearse(t, func(p *Plan) { p.Protocol, p.Acquisitions = "none", 20 }); res.Film != nil {
		t.Errorf("%+v", res.Film)
	}
}
