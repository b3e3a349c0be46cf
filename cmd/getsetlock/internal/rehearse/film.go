package rehearse

import (
	"cmp"
	"slices"
	"time"
)

// AnyProduct asks for the film of the product of which most was oversold, or
// else most was ordered.
const AnyProduct = "*"

// Film is a part of one product's history: who read the stock, who sold, and
// which sales another program's write has undone.
type Film struct {
	SKU      string    `json:"sku"`
	Stock    int       `json:"stock"` // at the beginning of the rehearsal
	Left     int       `json:"left"`  // at its end
	Sold     int       `json:"sold"`
	Oversold int       `json:"oversold"` // units sold that never left the stock
	Jobs     int       `json:"jobs"`     // number of jobs in the whole rehearsal
	First    int       `json:"first"`    // number of the first one in Scenes, from 1
	Scenes   []FilmJob `json:"scenes"`   // sorted by the time of reading
}

// FilmJob is one program's work on the product.
type FilmJob struct {
	Who      string   `json:"who"`
	ReadMS   float64  `json:"read_ms"` // since the beginning of the rehearsal
	Read     int      `json:"read"`    // the stock that it read
	EndMS    float64  `json:"end_ms"`
	WroteMS  *float64 `json:"wrote_ms"` // null: it wrote nothing
	Wrote    int      `json:"wrote"`    // the stock that it wrote
	Units    int      `json:"units"`    // sold
	Undone   bool     `json:"undone"`   // another program's write put these units back
	UndoneBy string   `json:"undone_by,omitempty"`
	Died     bool     `json:"died"`
}

// mostScenes is the number of jobs that a drawing can show legibly.
const mostScenes = 12

// scene is what a hold did to the stock. Times are true ones; zero: it did not.
type scene struct {
	who           string
	readAt        time.Duration
	read          int
	sent, wroteAt time.Duration // when the write was sent, and when its reply came
	wrote         int
	died          bool
}

// plays records who works in a hold.
func (h *hold) plays(who string) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.scene.who = who
}

func (h *hold) reads(stock int) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.scene.readAt, h.scene.read = h.book.now(), stock
}

func (h *hold) died() {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.scene.died = true
}

// writes records a write whose reply just came.
func (h *hold) writes(sent time.Duration, stock int) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.scene.sent, h.scene.wroteAt, h.scene.wrote = sent, h.book.now(), stock
}

// film returns the film of a product. left is the stock at the end. The caller
// has ended all work.
func (b *book) film(sku string, stock, left map[string]int, orders map[string]int) *Film {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := func(sku string) int { return max(b.sold[sku]-(stock[sku]-left[sku]), 0) }
	if sku == AnyProduct {
		var all []string
		for name := range stock {
			all = append(all, name)
		}
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(over(b)-over(a), orders[b]-orders[a], cmp.Compare(a, b))
		})
		sku = all[0]
	}
	var jobs []*hold
	for _, h := range b.holds[sku] {
		if h.scene.readAt > 0 {
			jobs = append(jobs, h)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *hold) int { return cmp.Compare(a.scene.readAt, b.scene.readAt) })
	f := &Film{SKU: sku, Stock: stock[sku], Left: left[sku], Sold: b.sold[sku], Oversold: over(sku),
		Jobs: len(jobs), Scenes: []FilmJob{}}
	kept := standing(jobs, left[sku])
	lost := slices.IndexFunc(jobs, func(h *hold) bool { return h.scene.wroteAt > 0 && !kept[h] })
	from := max(0, lost-2)
	if lost < 0 {
		from = dense(jobs)
	}
	f.First = from + 1
	for _, h := range jobs[from:min(len(jobs), from+mostScenes)] {
		j := FilmJob{Who: h.scene.who, ReadMS: millis(h.scene.readAt), Read: h.scene.read,
			EndMS: millis(max(h.stop, h.scene.wroteAt)), Units: h.units, Died: h.scene.died}
		if h.scene.wroteAt > 0 {
			j.WroteMS, j.Wrote, j.Undone = new(millis(h.scene.wroteAt)), h.scene.wrote, !kept[h]
		}
		if j.Undone {
			j.UndoneBy = undoes(jobs, h)
		}
		f.Scenes = append(f.Scenes, j)
	}
	return f
}

// dense returns the first of the earliest jobs that a drawing shows legibly:
// without the long pause after a holder that died.
func dense(jobs []*hold) int {
	last := len(jobs) - mostScenes
	if last <= 0 {
		return 0
	}
	span := func(n int) time.Duration { return jobs[n+mostScenes-1].scene.readAt - jobs[n].scene.readAt }
	shortest := span(0)
	for n := range last {
		shortest = min(shortest, span(n))
	}
	for n := range last {
		if span(n) <= 3*shortest {
			return n
		}
	}
	return 0
}

// standing returns the jobs whose deductions are in the stock at the end. From
// the last write it goes back to the write that its program had read, and so
// on. All other deductions were overwritten.
//
// Two writes of one value look alike to a reader. Whichever is taken, the
// deductions that stand add up to what left the stock.
func standing(jobs []*hold, left int) map[*hold]bool {
	kept, wrote := make(map[*hold]bool), make(map[int][]*hold)
	for _, h := range jobs {
		if h.scene.wroteAt > 0 {
			wrote[h.scene.wrote] = append(wrote[h.scene.wrote], h)
		}
	}
	value, before := left, time.Duration(-1)
	for {
		var last *hold
		for _, h := range wrote[value] {
			if s := h.scene; (before < 0 || s.sent < before) &&
				(last == nil || s.wroteAt > last.scene.wroteAt) {
				last = h
			}
		}
		if last == nil {
			return kept
		}
		kept[last] = true
		value, before = last.scene.read, last.scene.readAt
	}
}

// undoes names the program that overwrote a job's deduction: it had read the
// stock before, and wrote afterwards.
func undoes(jobs []*hold, lost *hold) string {
	var first *hold
	for _, h := range jobs {
		s := h.scene
		if h != lost && s.wroteAt > lost.scene.sent && s.readAt < lost.scene.wroteAt &&
			(first == nil || s.wroteAt < first.scene.wroteAt) {
			first = h
		}
	}
	if first == nil {
		return ""
	}
	return first.scene.who
}
