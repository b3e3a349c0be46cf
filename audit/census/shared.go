package census

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
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

// soonest is the least time between two commands of a client that waits for the
// first one's reply: neither a network nor a unix socket is faster.
const soonest = 5 * time.Microsecond

// watchConnection looks for behaviour that excludes a client which has its
// connection to itself and waits for replies. MONITOR shows no replies, so it
// can refute that but never prove it.
func (c *Census) watchConnection(p *peer, o offset.Observed, name string) {
	if p.name == "" {
		return
	}
	switch since := o.At.Sub(p.last); {
	case p.lost != "" && anothers(p.lost, name, o.Args):
		c.isShared(o.Addr, "a second attempt began there before the first one's reply was read")
	case name == "SETNX" && o.At.Before(p.rests):
		c.isShared(o.Addr, "attempts follow each other there sooner than one client makes them")
	case since >= 0 && since < soonest:
		c.isNotOwn(o.Addr, "commands are sent there without waiting for replies")
	case name == "EXEC" || p.name == "MULTI":
		c.isNotOwn(o.Addr, "commands are sent there in a transaction, so clocks are read long before")
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
	c.isNotOwn(addr, why)
	if w := c.writers[addr]; w != nil && w.shared == "" {
		w.shared, w.clock = why, c.anotherClock(addr)
	}
}

// isNotOwn refutes the claim that a client has this connection to itself. What
// the claim narrowed is void.
func (c *Census) isNotOwn(addr, why string) {
	w := c.writers[addr]
	if w == nil || w.notOwn != "" {
		return
	}
	w.notOwn = why
	if c.cfg.OwnConnections {
		w.clock = c.anotherClock(addr)
	}
}

// anotherClock starts a new estimator for a writer's clock.
func (c *Census) anotherClock(name string) *offset.Estimator {
	c.fleet.Forget(name)
	return c.fleet.Writer(name)
}

// ownConnection reports whether a client's previous command on its connection
// may narrow its bounds: that is claimed, and nothing refutes it for this
// connection.
func (c *Census) ownConnection(w *writer) bool {
	return c.cfg.OwnConnections && w.notOwn == "" && w.shared == ""
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
