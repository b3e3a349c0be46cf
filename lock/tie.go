package lock

import (
	"context"
	"sync"
)

// ties listens for the end of contexts on behalf of the leases that were acquired with them. Many
// leases mostly share one context, or a few; each registration with a context costs as much memory as
// half a lease.
type ties struct {
	mu     sync.Mutex
	groups map[<-chan struct{}]*tie // by what ends, so that contexts which end together share one
}

// tie is the leases of one context.
type tie struct {
	leases []*Lease
	stop   func() bool // undoes the registration
}

// add has l.contextEnded called when the context of l ends.
func (t *ties) add(l *Lease) {
	done := l.parent.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups == nil {
		t.groups = make(map[<-chan struct{}]*tie)
	}
	g := t.groups[done]
	if g == nil {
		g = &tie{}
		t.groups[done] = g
		// Over already, it calls back on a goroutine of its own, which waits for mu.
		g.stop = context.AfterFunc(l.parent, func() { t.ended(done, g) })
	}
	g.leases = append(g.leases, l)
	l.tied = int32(len(g.leases))
}

// remove forgets l, unless its context has ended.
func (t *ties) remove(l *Lease) {
	done := l.parent.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[done]
	if l.tied == 0 || g == nil {
		return
	}
	last := len(g.leases) - 1
	moved := g.leases[last]
	g.leases[l.tied-1], moved.tied = moved, l.tied
	g.leases[last] = nil
	g.leases = g.leases[:last]
	l.tied = 0
	switch {
	case last == 0:
		g.stop()
		delete(t.groups, done)
	case cap(g.leases) > 64 && last < cap(g.leases)/4:
		g.leases = append(make([]*Lease, 0, 2*last), g.leases...)
	}
}

// ended takes the leases of a context that is over and gives them back.
func (t *ties) ended(done <-chan struct{}, g *tie) {
	t.mu.Lock()
	leases := g.leases
	g.leases = nil
	for _, l := range leases {
		l.tied = 0
	}
	if t.groups[done] == g {
		delete(t.groups, done)
	}
	t.mu.Unlock()
	for _, l := range leases {
		l.contextEnded()
	}
}
