package wire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// pulse finds out that a connection which only listens has died without a word, within two Timeouts
// and as long as somebody waits for what it brings. Then it closes the connection, and whoever
// reads from it learns the rest. It is the only sender on the connection.
type pulse struct {
	conn   redis.Conn
	every  time.Duration // a beat: half a Timeout
	mu     *sync.Mutex   // of the owner
	wanted func() bool   // whether anybody waits; called with mu held
	heard  atomic.Bool   // since the last beat

	// mu
	armed  bool
	pinged bool // and nothing was heard since
	asking bool // a PING is being written
	dead   bool
	beat   alarm
}

func (p *pulse) init(m *Mux, mu *sync.Mutex, conn redis.Conn, wanted func() bool) {
	p.conn, p.every, p.mu, p.wanted = conn, m.opts.Timeout/2, mu, wanted
	p.beat = alarm{wg: &m.wg, ring: p.tick}
}

// listen starts the beat, which stops by itself when nobody waits any more. mu is held.
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

// tick is one beat: silence brings a PING, and more silence the end.
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

// ping asks for a sign of life. While it hangs, the next beat ends it.
func (p *pulse) ping() {
	if p.conn.Send("PING") == nil {
		_ = p.conn.Flush() // the reader learns of an error as well
	}
	p.mu.Lock()
	p.asking = false
	p.mu.Unlock()
}
