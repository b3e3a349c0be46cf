package rehearse

import (
	"sync"
	"sync/atomic"
	"time"
)

// book records what really happened: which client believed that it held which
// product's key, from when until when in true time, and what was sold. Neither
// clients nor the server write it. The verdict uses nothing else.
type book struct {
	now func() time.Duration // true time since the rehearsal began

	// What passes between the bubble and the goroutine that reports progress.

	done    atomic.Int64 // number of orders done
	virtual atomic.Int64 // true time in ns of the latest event
	halted  atomic.Bool  // nobody waits for the result: the work ends

	mu       sync.Mutex
	holds    map[string][]*hold // holds of each product, in the order in which they began
	orphaned map[string]bool    // products whose last holder died with the key
	sold     map[string]int
	sales    int
	refused  int
	unserved map[string]int
	tallies  []tally
	writes   map[string][]write // late writes of old clients' attempts, by product
	late     time.Duration      // age from which on a write is late
}

// write is a write of an attempt: when it was sent, and the age of its clock
// reading then.
type write struct{ at, age time.Duration }

// tally counts what a group did.
type tally struct {
	acquisitions int
	takeovers    int
	lost         int
	retries      int
	sales        int
	waits        []time.Duration
}

// hold is a span of time in which a client worked on a product and took itself
// for the only holder.
type hold struct {
	book   *book
	group  int
	sku    string
	waited time.Duration // time that it waited; below zero: it did not wait

	host  *machine      // nil: a machine whose clock is right
	asked time.Duration // when it sent the command that got the key; start where that is unknown
	start time.Duration // when the client learned that it held the key
	stop  time.Duration // when it stopped working
	freed time.Duration // when its release came back; stop for a client that died
	lost  bool          // the client learned that it had lost the key

	deletes bool // its release sent a DEL, which deletes whatever value the key has
	units   int  // units sold
	scene   scene

	commands int64 // commands sent to acquire and release the key; zero if it did neither
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

// begin opens a hold and returns its number within the group, from zero. A wait
// below zero means that the client did not wait.
func (b *book) begin(group int, sku string, wait time.Duration) (*hold, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &hold{book: b, group: group, sku: sku, waited: wait, asked: b.now(), start: b.now(), stop: -1,
		freed: -1}
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

// ends records that the holder stopped working.
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

// frees records that no command of the holder can reach the key any more, and
// whether the holder learned that it had lost the key.
func (h *hold) frees(lost bool) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.freed = h.book.now()
	h.lost = lost
	if lost {
		h.book.tallies[h.group].lost++
	}
}

// took records when the holder sent the command that got the key. Below zero:
// unknown.
func (h *hold) took(at time.Duration) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if at >= 0 && at < h.start {
		h.asked = at
	}
}

// sells records the units sold in a hold.
func (h *hold) sells(units int) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.units = units
}

// sent records the number of commands that the lock took, without the job's,
// and whether the client deleted the key at the end.
func (h *hold) sent(commands int64, deletes bool) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.commands, h.deletes = commands, deletes
}

// dies ends a hold whose key is never released.
func (h *hold) dies() {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.stop = h.book.now()
	h.freed = h.stop
	h.book.orphaned[h.sku] = true
}

// wrote records a write of an old client's attempt, if it was late.
func (b *book) wrote(sku string, age time.Duration) {
	if b.late == 0 || age <= b.late {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes[sku] = append(b.writes[sku], write{b.now(), age})
}

// sell records the end of an order: it was sold, or rejected because the goods
// were out of stock.
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

// putAside records the end of an order whose program stopped waiting for the
// key.
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

// passes publishes the current time for readers outside the bubble.
func (b *book) passes() { b.virtual.Store(int64(b.now())) }

func (b *book) isOrphaned(sku string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orphaned[sku]
}
