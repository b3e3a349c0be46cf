package rehearse

import (
	"sync"
	"sync/atomic"
	"time"
)

// book is what really happened, written down by somebody who is neither a client nor the server: who
// believed to hold what from when to when in true time, and what was sold. The verdict is
// passed on it alone.
type book struct {
	now func() time.Duration // true time since the rehearsal began

	done    atomic.Int64 // orders worked through, read by the progress from outside the bubble
	virtual atomic.Int64 // true time in ns, at the last thing that happened

	mu       sync.Mutex
	holds    map[string][]*hold // by product, in the order in which they began
	orphaned map[string]bool    // products whose last holder died with the key
	sold     map[string]int
	sales    int
	refused  int
	unserved map[string]int
	tallies  []tally
	writes   map[string][]write // of old clients' attempts, by product; only the late ones
	late     time.Duration      // from which age on a write is late
}

// write is one of an attempt: when it left, and how old the clock reading in it was.
type write struct{ at, age time.Duration }

// tally is what a group did.
type tally struct {
	acquisitions int
	takeovers    int
	lost         int
	retries      int
	sales        int
	waits        []time.Duration
}

// hold is one span of time in which a client worked as if nobody else did.
type hold struct {
	book   *book
	group  int
	sku    string
	waited time.Duration // below zero: it did not wait

	host  *machine      // nil: one that is never wrong
	asked time.Duration // it sent the command that got the key; the same as start where that is unknown
	start time.Duration // the client learnt that the key was its own
	stop  time.Duration // it stopped working
	freed time.Duration // its release came back; the same as stop for one that died
	lost  bool          // it was told that it had lost the key

	deletes bool // its release sent a DEL, which deletes whatever value the key has
	units   int  // sold in it

	commands int64 // sent while it took the key and gave it back; zero for one that never did
}

func newBook(groups int, now func() time.Duration) *book {
	return &book{
		now:      now,
		holds:    make(map[string][]*hold),
		orphaned: make(map[string]bool),
		sold:     make(map[string]int),
		unserved: make(map[string]int),
		tallies:  make([]tally, groups),
		writes:   make(map[string][]write),
	}
}

// begin opens a hold and says which of its group's it is, counted from zero. A wait below zero
// was none.
func (b *book) begin(group int, sku string, wait time.Duration) (*hold, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &hold{book: b, group: group, sku: sku, waited: wait, asked: b.now(), start: b.now(), stop: -1, freed: -1}
	b.holds[sku] = append(b.holds[sku], h)
	t := &b.tallies[group]
	t.acquisitions++
	if wait >= 0 {
		t.waits = append(t.waits, wait)
	}
	if b.orphaned[sku] {
		delete(b.orphaned, sku)
		t.takeovers++
	}
	return h, t.acquisitions - 1
}

// ends notes that the holder works no more.
func (h *hold) ends() {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.stop = h.book.now()
}

// over ends a hold that needs no release.
func (h *hold) over() {
	h.ends()
	h.frees(false)
}

// frees notes that nothing of the holder's can reach the key any more, and whether it was told
// that it had lost it.
func (h *hold) frees(lost bool) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.freed = h.book.now()
	h.lost = lost
	if lost {
		h.book.tallies[h.group].lost++
	}
}

// took notes when the command was sent that got the key; below zero: unknown.
func (h *hold) took(at time.Duration) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if at >= 0 && at < h.start {
		h.asked = at
	}
}

// sells notes the units that were sold in a hold.
func (h *hold) sells(units int) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.units = units
}

// sent notes what the lock took, the job aside, and whether the client deleted
// the key at the end.
func (h *hold) sent(commands int64, deletes bool) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.commands, h.deletes = commands, deletes
}

// dies ends a hold whose key nobody gives back.
func (h *hold) dies() {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.stop = h.book.now()
	h.freed = h.stop
	h.book.orphaned[h.sku] = true
}

// wrote notes a write of an old client's attempt, if it was late.
func (b *book) wrote(sku string, age time.Duration) {
	if b.late == 0 || age <= b.late {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes[sku] = append(b.writes[sku], write{b.now(), age})
}

// sell notes the end of an order: its goods went out, or there were not enough of them.
func (b *book) sell(group int, o Order, sold bool) {
	b.mu.Lock()
	if sold {
		b.sold[o.SKU] += o.Quantity
		b.sales++
		b.tallies[group].sales++
	} else {
		b.refused++
	}
	b.mu.Unlock()
	b.ticked()
}

// putAside notes the end of an order for whose key nobody wanted to wait any longer.
func (b *book) putAside(o Order) {
	b.mu.Lock()
	b.unserved[o.SKU]++
	b.mu.Unlock()
	b.ticked()
}

func (b *book) retry(group int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tallies[group].retries++
}

func (b *book) ticked() {
	b.passes()
	b.done.Add(1)
}

// passes shows whoever looks from outside that time goes on.
func (b *book) passes() { b.virtual.Store(int64(b.now())) }

func (b *book) isOrphaned(sku string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orphaned[sku]
}
