// SPDX-License-Identifier: Apache-2.0

package wire

import "sync/atomic"

// pulse detects that a subscription has died silently. It takes at most two
// Timeouts, and works while a goroutine waits for messages. Then it closes the
// connection, and the reader does the rest. It is the only sender there. The
// subscriber's mutex guards the fields below heard.
type pulse struct {
	heard  atomic.Bool // a message came since the last beat
	armed  bool
	pinged bool // a PING was sent, and nothing came since
	asking bool // a PING is being written
	dead   bool
	beat   alarm // rings after half a Timeout
}

// wanted reports whether a goroutine waits for messages. mu is held.
func (c *subscription) wanted() bool {
	t := &c.s.tracker
	return len(t.watches)+len(t.others) > 0 || c.hears && c.s.notices.ears.Wanted()
}

// listen starts the beat, which stops by itself when no goroutine waits any
// more. mu is held.
func (c *subscription) listen() {
	if !c.armed && !c.dead {
		c.armed, c.pinged = true, false
		c.beat.set(c.s.m.Timeout() / 2)
	}
}

// end stops the beat for good. mu is held.
func (c *subscription) end() {
	c.dead = true
	if c.armed {
		c.beat.stop()
	}
}

// tick is one beat. After a silent beat it sends a PING, and after another it
// closes the connection.
func (c *subscription) tick() {
	heard := c.heard.Swap(false)
	c.s.mu.Lock()
	c.armed = false
	if c.dead || !c.wanted() {
		c.s.mu.Unlock()
		return
	}
	silent := c.asking || c.pinged && !heard
	ask := !silent && !heard
	c.pinged = ask
	if !silent {
		c.asking, c.armed = ask, true
		c.beat.set(c.s.m.Timeout() / 2)
	}
	c.s.mu.Unlock()
	switch {
	case silent:
		_ = c.conn.Close()
	case ask:
		c.ping()
	}
}

// ping sends a PING. If that hangs, the next beat closes the connection.
func (c *subscription) ping() {
	if c.conn.Send("PING") == nil {
		_ = c.conn.Flush() // the reader gets an error too
	}
	c.s.mu.Lock()
	c.asking = false
	c.s.mu.Unlock()
}
