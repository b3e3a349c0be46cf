// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// writer is what is known of one address; without an address, of the unknown
// writers of one dialect that polls saw.
type writer struct {
	addr   string
	fits   []*dialect.Dialect // dialects that fit everything it wrote, the likeliest first; never empty
	shared string             // why several clients share the address; empty: nothing shows that
	timing
	story
	holds   histogram
	waits   histogram
	waiting map[keyID]*wait
	seen    map[keyID]dialect.Reply // what its last GET of a key returned
	keys    []string
	last    time.Time
}

// timing is what the writes of a writer show of its clock and its attempts.
type timing struct {
	assumed time.Duration  // the lease that the samples were taken with
	wide    time.Duration  // by how much the lease may be less than assumed
	bounds  seenBounds     // bounds of the clock
	lead    time.Duration  // how far a written time was ahead of the server's clock, at most
	stood   *time.Duration // the greatest lower bound from stamps that were there at a first look
	clock   offset.Clock   // what the writes show of the clock, if there is only one
	steps   []offset.Step  // the latest steps of that clock
	gap     *gapSample     // the longest attempt
}

// wait is a row of failed attempts.
type wait struct{ first, last time.Time }

// gapSample is a GETSET, and a command before it that carried the same stamp.
type gapSample struct {
	from, at time.Time // by the server's clock
	addr     string
	key      string
}

// length returns the least age of the clock reading, whatever that clock
// showed.
func (g gapSample) length() time.Duration { return g.at.Sub(g.from) }

// gone is what is kept of writers and keys that were dropped from memory.
type gone struct {
	writers, keys int64      // their numbers
	seen          seenBounds // bounds around all writes of the writers
	gap           *gapSample // the longest gap of a writer
}

// writer returns the writer of an address, and creates it if necessary. Without
// an address there is one writer per dialect.
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
			addr: addr, fits: r.Dialects,
			shared:  sharedFromTheStart(addr),
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
			w.assumed = unknownLease
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

// narrow keeps the dialects that also fit this value. If a value fits none of
// the previous ones, it begins anew.
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

// unknownLease is assumed where neither the configuration nor the dialect has a
// lease.
const unknownLease = time.Minute

// took records how old the clock reading of a GETSET was, if that is the oldest
// so far: at least as old as the SETNX with the same stamp. A GETSET alone
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

// wait follows a row of failed attempts. It returns how long a row lasted that
// ended.
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
	// This is longer than any client sleeps between two polls: the client gave
	// up, and a new row begins.
	if at.Sub(row.last) > max(5*time.Second, 20*w.dialect().Poll) {
		ended, ok = row.last.Sub(row.first), true
		row.first = at
	}
	row.last = at
	return ended, ok
}

// waited records a failed attempt, or the success that ends a row of them.
func (c *Census) waited(w *writer, k keyID, at time.Time, won bool) {
	if ended, ok := w.wait(k, at, won); ok {
		w.waits.add(ended)
		c.waits.add(ended)
	}
}

// remember stores what a GET returned. What exceeds the limit is not stored and
// counts as unknown.
func (w *writer) remember(k keyID, r dialect.Reply) {
	if _, known := w.seen[k]; known || len(w.seen) < mostWriterKeys {
		w.seen[k] = r
	}
}

// forgetWriter drops the writer that has been silent for longest, and keeps the
// bounds of its clock.
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
	if w.gap != nil && (c.gone.gap == nil || w.gap.length() > c.gone.gap.length()) {
		c.gone.gap = w.gap
	}
	c.gone.writers++
	delete(c.writers, oldest)
}

// hostOf returns an address without its port, which all connections of a host
// share.
func hostOf(addr string) string {
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	host := addr[:at]
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		return inner[:len(inner)-1] // an IPv6 address
	}
	if strings.ContainsRune(host, ':') {
		return addr
	}
	return host
}
