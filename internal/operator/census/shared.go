// SPDX-License-Identifier: Apache-2.0

package census

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// sharedFromTheStart returns why an address cannot belong to a single client,
// known before any of its commands is examined; otherwise an empty string.
func sharedFromTheStart(addr string) string {
	switch {
	case addr == "":
		return "polls show no addresses"
	case strings.HasPrefix(addr, "unix:"), strings.HasPrefix(addr, "/"):
		return "all clients of a unix socket have one address"
	}
	return ""
}

// watchConnection looks for behaviour that excludes a client which has its
// connection to itself.
func (c *Census) watchConnection(p *peer, o offset.Observed, name string) {
	if p.name == "" {
		return
	}
	switch {
	case p.lost != "" && anothers(p.lost, name, o.Args):
		c.isShared(o.Addr, "a second attempt began there before the first one's reply was read")
	case name == "SETNX" && o.At.Before(p.rests):
		c.isShared(o.Addr, "attempts follow each other there sooner than one client makes them")
	}
}

// anothers reports whether a command comes from another client than the one
// that has just lost an attempt on a key: that one asks for the key's value
// next.
func anothers(lost, name string, args []string) bool {
	switch name {
	case "SETNX", "GETSET", "DEL":
		return true
	case "GET":
		return len(args) > 1 && args[1] != lost
	}
	return false
}

// isShared marks an address as shared by several clients from now on. What
// their writes together said about one clock is void.
func (c *Census) isShared(addr, why string) {
	if w := c.writers[addr]; w != nil && w.shared == "" {
		w.shared, w.clock, w.steps = why, offset.Clock{}, nil
	}
}

// rest returns how long a client of this dialect surely sleeps after its GET if
// it sends no GETSET. found: the key existed.
func (w *writer) rest(found bool) time.Duration {
	d := w.dialect()
	if !d.CountsSleeps && !d.WaitsForever || !found && d.OnNil != dialect.NilWaits {
		return 0
	}
	// Subtract a thousandth for the client's own clock and a millisecond for
	// timers that fire early.
	return max(0, d.Poll-d.Poll/1000-time.Millisecond)
}
