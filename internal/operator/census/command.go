// SPDX-License-Identifier: Apache-2.0

package census

import (
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// order is one command on one key, with what is known of its sender.
type order struct {
	at     time.Time
	addr   string
	id     keyID
	value  string
	ttl    time.Duration // 0: none
	set    bool          // SET … NX instead of SETNX
	seen   seenBounds    // what a stamp says of its writer's clock
	script bool
	before peer // the connection's previous command
}

// command takes one line of MONITOR.
func (c *Census) command(o offset.Observed) {
	if o.Args[0] == reading.Called {
		c.calledOn(o)
		return
	}
	name := strings.ToUpper(o.Args[0])
	q := order{at: o.At, addr: o.Addr}
	if o.Addr == "lua" {
		// The lines of a script come after the line that called it, which has
		// the address.
		q.addr, q.script = c.scripter, true
	} else {
		p := c.peer(o.Addr)
		c.watchConnection(p, o, name)
		q.before = *p
		*p = peer{last: o.At, name: name}
		if reading.IsScript(name) {
			c.scripter = o.Addr
		}
	}
	if reading.Forgets(c.scope, name, o.DB, o.Args) {
		c.forgets(name)
		return
	}
	if len(o.Args) < 2 {
		return
	}
	q.id = keyID{o.DB, o.Args[1]}
	if len(o.Args) > 2 {
		q.value = o.Args[2]
	}
	if ofManyKeys(name) {
		c.obeyAll(name, q, o.Args)
	} else if c.scope.Covers(o.DB, o.Args[1]) {
		c.obey(name, q, o.Args)
	}
	if k := c.keys[q.id]; k != nil {
		k.commanded = latest(k.commanded, q.at)
	}
}

func (c *Census) obey(name string, q order, args []string) {
	switch name {
	case "SETNX":
		if len(args) > 2 {
			c.setnx(q)
		}
	case "SET":
		if len(args) > 2 {
			c.set(q, args[3:])
		}
	case "GET":
		c.get(q)
	case "GETSET":
		if len(args) > 2 {
			c.getset(q)
		}
	case "SETEX", "PSETEX":
		if len(args) > 3 {
			q.value, q.ttl = args[3], ttlOf(name[0] != 'P', args[2])
			c.wrote(q)
		}
	case "EXPIRE", "PEXPIRE":
		if len(args) > 2 {
			q.ttl = ttlOf(name[0] != 'P', args[2])
			c.expire(q)
		}
	}
}

func (c *Census) forgets(name string) {
	for _, k := range c.keys {
		k.unknown()
		if name != "SWAPDB" {
			k.free()
		}
	}
}

// ofManyKeys reports whether a command may change several keys or leaves a key
// in a state that is not followed.
func ofManyKeys(name string) bool {
	switch name {
	case "DEL", "UNLINK", "GETDEL":
		return true
	case "EXPIREAT", "PEXPIREAT", "PERSIST", "RENAME", "RENAMENX", "RESTORE", "COPY", "MOVE", "APPEND",
		"SETRANGE", "INCR",
		"DECR", "INCRBY", "DECRBY", "INCRBYFLOAT", "MSET", "MSETNX", "GETEX", "DELEX", "DELIFEQ", "BITOP",
		"SORT":
		return true
	}
	return false
}

// obeyAll takes a command that may name many keys, and checks the scope for
// each. MOVE and COPY name the database into which they put a key.
func (c *Census) obeyAll(name string, q order, args []string) {
	into := reading.Target(name, q.id.db, args)
	for _, key := range args[1:] {
		for _, database := range []int{q.id.db, into} {
			if !c.scope.Covers(database, key) {
				continue
			}
			q.id = keyID{database, key}
			switch name {
			case "DEL", "UNLINK", "GETDEL":
				c.del(q)
			default:
				// What these commands leave is not followed: the key's state
				// must be learnt again.
				if k := c.keys[q.id]; k != nil {
					k.known, k.ends, k.commanded = false, time.Time{}, latest(k.commanded, q.at)
				}
			}
			break
		}
	}
}

// calledOn keeps the last call on a watched key by a client that is no
// getsetlock client, whatever its value. The event may be late, so it says
// nothing of the connection's last command.
func (c *Census) calledOn(o offset.Observed) {
	if len(o.Args) != 3 || c.lastCall != nil && o.At.Before(c.lastCall.At) {
		return
	}
	c.lastCall = &Act{
		At: o.At, DB: o.DB, Key: o.Args[1], What: ActCalled, Addr: o.Addr,
		Detail: o.Args[2],
	}
}

// set reads the options of a SET.
func (c *Census) set(q order, options []string) {
	nx, xx := false, false
	for i, o := range options {
		switch strings.ToUpper(o) {
		case "NX":
			nx = true
		case "XX", "IFEQ", "IFNE", "IFDEQ", "IFDNE":
			xx = true
		case "EX", "PX":
			if i+1 < len(options) {
				q.ttl = ttlOf(strings.EqualFold(o, "EX"), options[i+1])
			}
		}
	}
	switch k := c.keys[q.id]; {
	case nx && q.script:
		// Written by a getsetlock client or a token lock's client, not by an
		// old client.
		if k != nil && k.known && k.exists {
			return
		}
		c.wrote(q)
	case nx:
		q.set = true
		c.setnx(q)
	case xx:
		// Whether it wrote depends on the key's value.
		if k != nil {
			k.known = false
		}
	default:
		c.wrote(q)
	}
}

// ttlOf reads a TTL; text that is no number counts as none.
func ttlOf(seconds bool, text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > 1<<40 || n < -(1<<40) {
		return 0
	}
	if seconds {
		n *= 1000
	}
	return time.Duration(n) * time.Millisecond
}

// peer returns what is remembered of a connection. If there are too many
// connections, all are forgotten, which makes offsets wider but never wrong.
func (c *Census) peer(addr string) *peer {
	p := c.peers[addr]
	if p == nil {
		if len(c.peers) >= 16*c.cfg.MaxWriters {
			clear(c.peers)
		}
		p = &peer{}
		c.peers[addr] = p
	}
	return p
}
