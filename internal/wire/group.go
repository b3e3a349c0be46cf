package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Group keeps the connections of several Muxes on one server. After a fail-over
// a new connection may lead to the promoted server, while an old one still
// reaches the deposed one, which does not know yet. One process would then
// acquire on the one and renew on the other. So whenever a Mux has dialed,
// Group compares the run ids of its server and of the others'. If they differ,
// the older connections end with their last reply.
//
// Servers whose run id is unknown are not compared.
type Group struct {
	mu    sync.Mutex
	muxes []*Mux
	asks  Verdict   // whether INFO returns a run id, tried on a connection of its own
	moved time.Time // time of the last retirement; zero: never
}

var errMoved = errors.New("another connection leads to another server: there was a fail-over")

func (g *Group) add(m *Mux) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.muxes = append(g.muxes, m)
}

// others returns the connections of the other Muxes.
func (g *Group) others(m *Mux) (links []*link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.muxes {
		if l := o.link.Load(); o != m && l != nil {
			links = append(links, l)
		}
	}
	return links
}

// dialed starts the comparison for l, a new connection of m. The mutex of m is
// held.
func (g *Group) dialed(m *Mux, l *link) {
	if g == nil || len(g.others(m)) == 0 {
		return
	}
	m.wg.Add(1) // m is not closed
	go func() {
		defer m.wg.Done()
		g.compare(m, l)
	}()
}

// compare retires the connections that lead to another server than l does. It
// does so at most once a Timeout. Otherwise a hook that leads to two servers in
// turn would dial at every call.
func (g *Group) compare(m *Mux, l *link) {
	for g.mayAsk(m) {
		strangers := g.strangers(m, l)
		if len(strangers) == 0 {
			return
		}
		wait := g.turn(m.opts.Timeout)
		if wait == 0 {
			for _, o := range strangers {
				o.withdraw(errMoved)
			}
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.life.Done():
			timer.Stop()
			return
		}
	}
}

// strangers returns the connections of other Muxes, older than l, that lead to
// another server than l does.
func (g *Group) strangers(m *Mux, l *link) (strangers []*link) {
	ours := l.server(m.life)
	for _, o := range g.others(m) {
		if !o.born.Before(l.born) || ours == "" || l.gone() {
			continue
		}
		if theirs := o.server(m.life); theirs != "" && theirs != ours {
			strangers = append(strangers, o)
		}
	}
	return strangers
}

// turn returns zero if connections may be retired now, else how long to wait.
func (g *Group) turn(every time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if wait := every - now.Sub(g.moved); !g.moved.IsZero() && wait > 0 {
		return wait
	}
	g.moved = now
	return 0
}

// mayAsk reports whether the server returns its run id. It tries that on a
// connection of its own: some proxies hang up on an unknown command.
func (g *Group) mayAsk(m *Mux) bool {
	g.mu.Lock()
	asks := g.asks
	g.mu.Unlock()
	if asks != Open {
		return asks == Has
	}
	var id string
	conn, err := m.open(m.life, &m.asides, func(conn redis.Conn) error {
		v, err := conn.Do("INFO", "server")
		id = runID(Reply{v, err})
		return err
	})
	switch {
	case err == nil:
		_ = conn.Close()
		asks = Lacks
		if id != "" {
			asks = Has
		}
	case IsPassing(err), errors.Is(err, ErrClosed):
	default:
		asks = Lacks
	}
	g.mu.Lock()
	g.asks = asks
	g.mu.Unlock()
	return asks == Has
}

// server returns the run id of the server that l leads to, empty if unknown.
func (l *link) server(ctx context.Context) string {
	l.mu.Lock()
	id := l.runID
	l.mu.Unlock()
	if id != "" {
		return id
	}
	c := newCall()
	c.cmds = []Command{Cmd("INFO", "server")}
	if !l.submit(c) {
		return ""
	}
	f, err := l.await(ctx, c)
	id = runID(c.outcome(0, f, err))
	l.mu.Lock()
	l.runID = id
	l.mu.Unlock()
	return id
}
