package wire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// pulse detects that a connection which only listens has died silently. It
// takes at most two Timeouts, and works while a goroutine waits for messages.
// Then it closes the connection, and the connection's reader handles the rest.
// It is the only sender on the connection.
type pulse struct {
	conn   redis.Conn
	every  time.Duration // length of a beat: half a Timeout
	mu     *sync.Mutex   // mutex of the owner
	wanted func() bool   // reports whether a goroutine waits; called with mu held
	heard  atomic.Bool   // a message came since the last beat

	// mu
	armed  bool
	pinged bool // a PING was sent, and nothing came since
	asking bool // a PING is being written
	dead   bool
	beat   alarm
}

func (p *pulse) init(m *Mux, mu *sync.Mutex, conn redis.Conn, wanted func() bool) {
	p.conn, p.every, p.mu, p.wanted = conn, m.opts.Timeout/2, mu, wanted
	p.beat = alarm{wg: &m.wg, ring: p.tick}
}

// listen starts the beat, which stops by itself when no goroutine waits any
// more. mu is held.
func (p *pulse) listen() {
	if !p.armed && !p.dead {
		p.armed, p.pinged = true, false
		p.beat.set(p.every)
	}
}

// end stops the beat for good. mu is held.
func (p *pulse) end() {
	p.dead = true
	if p.armed {
		p.beat.stop()
	}
}

// tick is one beat. After a silent beat it sends a PING, and after another it
// closes the connection.
func (p *pulse) tick() {
	heard := p.heard.Swap(false)
	p.mu.Lock()
	p.armed = false
	if p.dead || !p.wanted() {
		p.mu.Unlock()
		return
	}
	silent := p.asking || p.pinged && !heard
	ask := !silent && !heard
	p.pinged = ask
	if !silent {
		p.asking, p.armed = ask, true
		p.beat.set(p.every)
	}
	p.mu.Unlock()
	switch {
	case silent:
		_ = p.conn.Close()
	case ask:
		p.ping()
	}
}

// ping sends a PING. If that hangs, the next beat closes the connection.
func (p *pulse) ping() {
	if p.conn.Send("PING") == nil {
		_ = p.conn.Flush() // the reader gets an error too
	}
	p.mu.Lock()
	p.asking = false
	p.mu.Unlock()
}
