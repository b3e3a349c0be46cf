// SPDX-License-Identifier: Apache-2.0

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
	kinds    []kind // of each group's clients
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
// for the only holder. The program writes it; it is read after all work.
type hold struct {
	group  int
	kind   kind
	waited time.Duration // time that it waited; below zero: it did not wait

	host  *machine      // nil: a machine whose clock is right
	asked time.Duration // when it sent the command that got the key; start where that is unknown
	start time.Duration // when the client learned that it held the key
	stop  time.Duration // when it stopped working
	freed time.Duration // when its release came back; stop for a client that died
	lost  bool          // the client learned that it had lost the key

	deletes bool // its release sent a DEL, which deletes whatever value the key has
	units   int  // units sold
	job     job

	commands int64 // commands sent to acquire and release the key; zero if it did neither
}

// job is what a hold did to the stock. Times are true ones; zero: it did not.
type job struct {
	who           string
	readAt        time.Duration
	read          int
	sent, wroteAt time.Duration // when the write was sent, and when its reply came
	wrote         int
	died          bool
}

func newBook(kinds []kind, now func() time.Duration) *book {
	return &book{
		now:      now,
		holds:    make(map[string][]*hold),
		orphaned: make(map[string]bool),
		sold:     make(map[string]int),
		unserved: make(map[string]int),
		kinds:    kinds,
		tallies:  make([]tally, len(kinds)),
		writes:   make(map[string][]write),
	}
}

// begin opens a hold and returns its number within the group, from zero. A wait
// below zero means that the client did not wait.
func (b *book) begin(group int, sku string, wait time.Duration) (*hold, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &hold{group: group, kind: b.kinds[group], waited: wait, asked: b.now(), start: b.now(), stop: -1,
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

// orphan records that a holder died with the key of a product.
func (b *book) orphan(sku string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orphaned[sku] = true
}

func (b *book) isOrphaned(sku string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orphaned[sku]
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

// ends records the end of an order: it was sold in this hold, or rejected
// because the goods were out of stock.
func (b *book) ends(h *hold, o Order, sold bool) {
	b.mu.Lock()
	if sold {
		h.units = o.Quantity
		b.sold[o.SKU] += o.Quantity
		b.sales++
		b.tallies[h.group].sales++
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

// count changes a group's tally.
func (b *book) count(group int, change func(*tally)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.tallies[group])
}

func (b *book) ticked() {
	b.passes()
	b.done.Add(1)
}

// passes publishes the current time for readers outside the bubble.
func (b *book) passes() { b.virtual.Store(int64(b.now())) }
