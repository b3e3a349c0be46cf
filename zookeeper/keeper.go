// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
)

// keeper looks after a session until it is over: it sends signs of life, and
// deletes nodes that must not exist.
func (s *session) keeper() {
	defer s.b.Forget(s)
	for {
		timer := time.NewTimer(s.pause())
		select {
		case <-timer.C:
		case <-s.Done():
			timer.Stop()
			s.drop() // else the library would begin a new session
			return
		case <-s.b.Life.Done():
			timer.Stop()
			return
		}
		s.Sweep()
		s.live()
		s.settle()
		if s.rest() {
			return
		}
	}
}

// pause is the time until the next look.
func (s *session) pause() time.Duration {
	s.Lock()
	defer s.Unlock()
	left := s.trust.due(s.timeout) - s.Now()
	return min(max(left, s.timeout/100), sessions.Round(s.timeout))
}

// live sends a sign of life if one is due. A server that does not answer is
// left early: the library would wait for two thirds of the timeout.
func (s *session) live() {
	s.Lock()
	due := s.Now() >= s.trust.due(s.timeout)
	wait := max(s.timeout/8, 250*time.Millisecond)
	s.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.b.Life, wait)
	defer cancel()
	err := s.write(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoReply) { // whichever bound is less
		s.reconnect()
	}
}

// mostSettled is how many nodes one round of the keeper deletes.
const mostSettled = 32

// settle deletes nodes that must not exist.
func (s *session) settle() {
	s.Lock()
	some, wait := s.Strays(), s.timeout/6
	s.Unlock()
	ctx, cancel := context.WithTimeout(s.b.Life, wait)
	defer cancel()
	for _, g := range some[:min(len(some), mostSettled)] {
		if _, err := s.remove(ctx, g); err != nil {
			return // tried again at the next round
		}
	}
}

// remove deletes g's node, after it has looked for it where its name is not
// known. found is false if the node is certainly not there. After an error that
// is unknown.
func (s *session) remove(ctx context.Context, g *grant) (found bool, err error) {
	s.Lock()
	path, never := g.path, g.never
	s.Unlock()
	if path == "" && !never {
		if err := s.find(ctx, g); err != nil {
			return false, err
		}
		s.Lock()
		path = g.path
		s.Unlock()
	}
	if path != "" {
		_, err = ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(path, -1) })
	}
	switch {
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return false, err
	}
	s.Free(g)
	return path != "" && err == nil, nil
}

// rest retires a session that is not used, and closes a retired one that has no
// nodes left. It reports whether it closed the session.
func (s *session) rest() bool {
	s.Lock()
	timeout := s.timeout
	s.Unlock()
	idle, done := s.Rest(timeout, func(*grant) bool { return true })
	if idle {
		s.b.Retire(s)
	}
	if done {
		s.close()
	}
	return done
}

// leave ends a session at Close of the Backend: its locks that are still held
// free themselves after their TTL, since their holders may still be at work.
func (s *session) leave() error {
	if !s.Leave() {
		s.close()
		return nil
	}
	s.settle()
	s.drop()
	return nil
}
