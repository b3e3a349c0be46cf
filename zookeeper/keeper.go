package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// idleTTLs is how many TTLs a session without nodes is kept.
const idleTTLs = 10

// keeper looks after a session until it is over: it sends signs of life, and
// deletes nodes that must not exist.
func (s *session) keeper() {
	defer s.forget()
	for {
		timer := time.NewTimer(s.pause())
		select {
		case <-timer.C:
		case <-s.done:
			timer.Stop()
			s.drop() // else the library would begin a new session
			return
		case <-s.b.life.Done():
			timer.Stop()
			return
		}
		s.sweep()
		s.live()
		s.settle()
		if s.rest() {
			return
		}
	}
}

// pause is the time until the next look, a twelfth of the timeout at most.
func (s *session) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.trust.due(s.timeout) - s.now()
	return min(max(left, s.timeout/100), s.timeout/12)
}

// live sends a sign of life if one is due. A server that does not answer is
// left early: the library would wait for two thirds of the timeout.
func (s *session) live() {
	s.mu.Lock()
	due := s.now() >= s.trust.due(s.timeout)
	wait := max(s.timeout/8, 250*time.Millisecond)
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.b.life, wait)
	defer cancel()
	if err := s.write(ctx); errors.Is(err, context.DeadlineExceeded) {
		s.reconnect()
	}
}

// sweep gives up the nodes of grants that were not extended for their TTL.
func (s *session) sweep() {
	var gone []*grant
	now := s.now()
	s.mu.Lock()
	for g := range s.grants {
		if now >= g.keep {
			gone = append(gone, g)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		s.abandon(g)
	}
}

// mostSettled is how many nodes one round of the keeper deletes.
const mostSettled = 32

// settle deletes nodes that must not exist.
func (s *session) settle() {
	var some []*grant
	s.mu.Lock()
	wait := s.timeout / 6
	for g := range s.strays {
		if len(some) < mostSettled {
			some = append(some, g)
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.b.life, wait)
	defer cancel()
	for _, g := range some {
		if _, err := s.remove(ctx, g); err != nil {
			return // tried again at the next round
		}
	}
}

// remove deletes g's node, after it has looked for it where its name is not
// known. found is false if the node is certainly not there. After an error that
// is unknown.
func (s *session) remove(ctx context.Context, g *grant) (found bool, err error) {
	s.mu.Lock()
	path, never := g.path, g.never
	s.mu.Unlock()
	if path == "" && !never {
		if err := s.find(ctx, g); err != nil {
			return false, err
		}
		s.mu.Lock()
		path = g.path
		s.mu.Unlock()
	}
	if path != "" {
		_, err = ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(path, -1) })
	}
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return false, err
	}
	s.free(g)
	return path != "" && err == nil, nil
}

// rest retires a session that is not used, and closes a retired one that has no
// nodes left. It reports whether it closed the session.
func (s *session) rest() bool {
	s.mu.Lock()
	needed := len(s.grants)+len(s.places)+len(s.strays) > 0
	quiet := s.now() - s.used
	idle := !needed && quiet > idleTTLs*s.timeout
	retired := s.retired
	s.mu.Unlock()
	switch {
	case idle && !retired:
		s.retire()
	case retired && !needed && quiet > s.timeout/6: // an attempt may just have got it
		s.close()
		return true
	}
	return false
}

// end of a session at Close of the Backend: its locks that are still held free
// themselves after their TTL, since their holders may still be at work.
func (s *session) leave() {
	s.mu.Lock()
	holds := len(s.grants) > 0
	for g := range s.places {
		s.strays[g] = true
	}
	clear(s.places)
	s.mu.Unlock()
	if !holds {
		s.close()
		return
	}
	s.settle()
	s.drop()
}
