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
	products map[string]*product // by SKU
	refused  int
	late     time.Duration // age from which on a write is late
}

// product is what is sold under one lock. The book's mutex guards what happened
// to it; the rest stays as it is.
type product struct {
	sku    string
	stock  int    // at the beginning
	orders int    // number of orders
	shelf  string // the key of its stock
	name   string // the lock's name, for old clients and bridges
	key    string // the bytes of key L
	mark   string // the bytes of key M, which alone has a token in clean

	holds    []*hold // in the order in which they began
	orphaned bool    // its last holder died with the key
	sold     int
	unserved int
	writes   []write   // late writes of old clients' attempts
	left     int       // of the stock, when all work is done
	episodes []episode // overlaps of its holds, when they are judged
}

// oversold returns units sold minus units that left the stock: the deductions
// that another client's write has undone, whether or not the goods ran out
// later.
func (p *product) oversold() int { return max(p.sold-(p.stock-p.left), 0) }

// write is a write of an attempt: when it was sent, and the age of its clock
// reading then.
type write struct{ at, age time.Duration }

// hold is a span of time in which a client worked on a product and took itself
// for the only holder. The program writes it; it is read after all work.
type hold struct {
	team   *team
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

// begin opens a hold and returns its number within the group, from zero. A wait
// below zero means that the client did not wait.
func (b *book) begin(t *team, sku string, wait time.Duration) (*hold, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &hold{team: t, kind: t.kind, waited: wait, asked: b.now(), start: b.now(), stop: -1, freed: -1}
	p := b.products[sku]
	p.holds = append(p.holds, h)
	t.Acquisitions++
	if wait >= 0 {
		t.waits = append(t.waits, wait)
	}
	if p.orphaned {
		p.orphaned = false
		t.Takeovers++
	}
	return h, t.Acquisitions - 1
}

// orphan records that a holder died with the key of a product.
func (b *book) orphan(sku string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.products[sku].orphaned = true
}

func (b *book) isOrphaned(sku string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.products[sku].orphaned
}

// wrote records a write of an old client's attempt, if it was late.
func (b *book) wrote(p *product, age time.Duration) {
	if b.late == 0 || age <= b.late {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.writes = append(p.writes, write{b.now(), age})
}

// ends records the end of an order: it was sold in this hold, or rejected
// because the goods were out of stock.
func (b *book) ends(h *hold, o Order, sold bool) {
	b.mu.Lock()
	if sold {
		h.units = o.Quantity
		b.products[o.SKU].sold += o.Quantity
		h.team.Sales++
	} else {
		b.refused++
	}
	b.mu.Unlock()
	b.ticked()
}

// putAside records the end of an order whose program stopped waiting for the
// key.
func (b *book) putAside(o Order) {
	b.count(&b.products[o.SKU].unserved)
	b.ticked()
}

// count adds one to a number that the book guards.
func (b *book) count(n *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

func (b *book) ticked() {
	b.passes()
	b.done.Add(1)
}

// passes publishes the current time for readers outside the bubble.
func (b *book) passes() { b.virtual.Store(int64(b.now())) }
