package census

import (
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// writer is what is known of one address, or, without an address, of whom polls saw write one dialect.
type writer struct {
	addr        string
	fits        []*dialect.Dialect // that fit all it wrote, the likeliest first; never empty
	assumed     time.Duration      // lease that its samples were taken with
	wide        time.Duration      // its lease may be less than assumed by so much
	bounds      seenBounds         // of its clock
	stood       *time.Duration     // the greatest lower bound by stamps that stood at a first look
	clock       *offset.Estimator  // its clock, if it is one and runs steadily
	shared      string             // why several clients are behind the address; empty if they are not
	notOwn      string             // why its connection is no client's own; empty if it may be
	counts      Counts
	holds       histogram
	waits       histogram
	waiting     map[keyID]*wait
	seen        map[keyID]dialect.Reply // what its last GET of a key returned
	keys        []string
	first, last time.Time
	lastWrite   *Act
	lastFailed  *Act
	gap         *gapSample
}

// wait is a row of failed attempts.
type wait struct{ first, last time.Time }

// gapSample is a GETSET, and a command before it that carried the same stamp.
type gapSample struct {
	from, at time.Time // server's clock
	addr     string
	key      string
}

// length is how old the clock reading was at least, whatever that clock showed.
func (g gapSample) length() time.Duration { return g.at.Sub(g.from) }

// goneWriters is what stays of writers that fell out of memory.
type goneWriters struct {
	count int64
	seen  seenBounds // around all of theirs
}

// writer finds or makes the one of an address. Without an address there is one a dialect.
func (c *Census) writer(addr string, r reading.Reading, at time.Time) *writer {
	name := addr
	if addr == "" {
		name = " " + r.Dialects[0].Name
	}
	w := c.writers[name]
	if w == nil {
		if len(c.writers) >= c.cfg.MaxWriters {
			c.forgetWriter()
		}
		w = &writer{
			addr: addr, fits: r.Dialects, clock: c.fleet.Writer(name), first: at, shared: sharedFromTheStart(addr),
			waiting: map[keyID]*wait{}, seen: map[keyID]dialect.Reply{},
		}
		w.assumed = c.cfg.Lease
		if w.assumed > 0 && c.cfg.Greatest > w.assumed {
			w.assumed, w.wide = c.cfg.Greatest, c.cfg.Greatest-c.cfg.Lease
		}
		if w.assumed == 0 {
			w.assumed = r.Dialects[0].Lease
		}
		if w.assumed == 0 {
			w.assumed = time.Minute
		}
		c.writers[name] = w
		if addr != "" && len(c.hosts) < 16*c.cfg.MaxWriters {
			c.hosts[hostOf(addr)] = true
		}
	}
	w.last = latest(w.last, at)
	if len(r.Dialects) > 0 {
		w.narrow(r.Dialects)
	}
	return w
}

// narrow keeps the dialects that fit this value too; a value that fits none of the old ones begins anew.
func (w *writer) narrow(fits []*dialect.Dialect) {
	if slices.Equal(w.fits, fits) {
		return
	}
	var both []*dialect.Dialect
	for _, d := range w.fits {
		if slices.Contains(fits, d) {
			both = append(both, d)
		}
	}
	if len(both) == 0 {
		both = fits
	}
	w.fits = both
}

func (w *writer) dialect() *dialect.Dialect { return w.fits[0] }

// clocked adds a stamp to the clock of a client that is alone behind its address.
// prev is the command before the clock reading, zero where that is not known.
func (c *Census) clocked(w *writer, key string, r reading.Reading, at, prev time.Time, slept time.Duration) {
	d := w.dialect()
	if !d.HasStamp() || w.shared != "" {
		return
	}
	s := offset.StampedBy(*d, w.assumed, r.Stamp)
	low, high := r.Slacks(d)
	// Not knowing the slack or the lease is like not knowing the clock by as much.
	s.Slack, s.Unit = high, s.Unit+high-low+w.wide
	// It read its clock within the gap. Where it has the connection to itself, it
	// also did so after the command before.
	s.Key, s.At, s.Prev = key, at, at.Add(-c.gapForPeople())
	if c.ownConnection(w) && !prev.IsZero() && prev.Add(slept).After(s.Prev) {
		s.Prev, s.Slept = prev, slept
	}
	// A stamp that no clock could have written is no news of a clock.
	_ = w.clock.Stamp(s)
}

// took notes how old the clock reading behind a GETSET was, if that is the oldest
// yet: at least as old as the SETNX that carried the same stamp. A GETSET alone
// shows no age.
func (w *writer) took(q order) {
	if !w.dialect().HasStamp() {
		return
	}
	g := gapSample{from: q.at, at: q.at, addr: w.addr, key: q.id.name}
	if q.before.setnx == q.id.name && q.before.stamp == q.value && q.before.tried.Before(q.at) {
		g.from = q.before.tried
	}
	if w.gap == nil || g.length() > w.gap.length() {
		w.gap = &g
	}
}

func (w *writer) uses(key string) {
	if len(w.keys) < mostWriterKeys && !slices.Contains(w.keys, key) {
		w.keys = append(w.keys, key)
	}
}

// waits notes a failed attempt, or the success that ends the row.
func (w *writer) wait(k keyID, at time.Time, won bool) (ended time.Duration, ok bool) {
	row := w.waiting[k]
	if won {
		delete(w.waiting, k)
		if row == nil {
			return 0, false
		}
		return at.Sub(row.first), true
	}
	if row == nil {
		if len(w.waiting) < mostWriterKeys {
			w.waiting[k] = &wait{at, at}
		}
		return 0, false
	}
	// Longer than any client sleeps between two polls: it gave up, and this is another row.
	if at.Sub(row.last) > max(5*time.Second, 20*w.dialect().Poll) {
		ended, ok = row.last.Sub(row.first), true
		row.first = at
	}
	row.last = at
	return ended, ok
}

// remember notes what a GET returned. What does not fit in is forgotten and means "not known".
func (w *writer) remember(k keyID, r dialect.Reply) {
	if _, known := w.seen[k]; known || len(w.seen) < mostWriterKeys {
		w.seen[k] = r
	}
}

// forgetWriter drops the one that was silent for longest and keeps what its clock may have been.
func (c *Census) forgetWriter() {
	var oldest string
	for name, w := range c.writers {
		o := c.writers[oldest]
		if o == nil || w.last.Before(o.last) || w.last.Equal(o.last) && name < oldest {
			oldest = name
		}
	}
	w := c.writers[oldest]
	c.gone.seen.join(w.bounds)
	if w.gap != nil && (c.gap == nil || w.gap.length() > c.gap.length()) {
		c.gap = w.gap
	}
	c.gone.count++
	delete(c.writers, oldest)
	c.fleet.Forget(oldest)
}

// hostOf is an address without its port: a client's connections share it.
func hostOf(addr string) string {
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	host := addr[:at]
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		return inner[:len(inner)-1] // an address of IPv6
	}
	if strings.ContainsRune(host, ':') {
		return addr
	}
	return host
}
