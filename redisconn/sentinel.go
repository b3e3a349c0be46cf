// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// headStart is how long the sentinel that last led to a master is asked alone.
// It is far less than any Timeout, and long compared with a round trip.
const headStart = 100 * time.Millisecond

// throughSentinels asks the sentinels for the master and connects to it. It
// first asks the sentinel that led there last time. If that does not lead to a
// master at once, it asks all the others together. So a sentinel that is
// silent, or leads to a silent host, does not hide the others.
//
// A sentinel's answer can be old, so throughSentinels asks the server for its
// role: a lock taken on a replica or on a deposed master would be no lock. The
// master can still change between that answer and the first command. The lock's
// own rules must bear that, as with every fail-over.
func (d *dialer) throughSentinels(ctx context.Context, with access) (redis.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &search{dialer: d, with: with, found: make(chan finding, len(d.hosts)), masters: map[string]bool{}}
	defer s.end()
	asked := map[string]bool{} // sentinels without an answer yet
	ask := func(hosts []string) {
		for _, host := range hosts {
			asked[host] = true
			go s.ask(ctx, host)
		}
	}
	first, rest := d.order()
	ask(first)
	early := time.NewTimer(headStart)
	defer early.Stop()
	for len(asked)+len(rest) > 0 {
		select {
		case f := <-s.found:
			delete(asked, f.sentinel)
			if f.err == nil {
				d.last.Store(&f.sentinel)
				return f.conn, nil
			}
			s.failed(f)
			ask(rest)
			rest = nil
		case <-early.C:
			ask(rest)
			rest = nil
		case <-ctx.Done():
			s.lastWords(asked)
			for host := range asked {
				s.failed(finding{sentinel: host, err: context.Cause(ctx)})
			}
			return nil, s.unfound()
		}
	}
	return nil, s.unfound()
}

// lastWord is how long a search whose time is over waits for errors that say
// more than that.
const lastWord = 50 * time.Millisecond

// lastWords takes the errors of sentinels that were asked until the time was
// over. A connection that comes now is too late.
func (s *search) lastWords(asked map[string]bool) {
	rest := time.NewTimer(lastWord)
	defer rest.Stop()
	for len(asked) > 0 {
		select {
		case f := <-s.found:
			delete(asked, f.sentinel)
			if f.err == nil {
				_ = f.conn.Close()
				f.err = errors.New("led to the master too late")
			}
			s.failed(f)
		case <-rest.C:
			return
		}
	}
}

// order splits the sentinels into those to be asked at once and the others.
func (d *dialer) order() (first, rest []string) {
	last := d.last.Load()
	if last == nil {
		return d.hosts, nil
	}
	return []string{*last}, slices.DeleteFunc(slices.Clone(d.hosts),
		func(host string) bool { return host == *last })
}

// search is one search through the sentinels. Its goroutines end with its
// context and are not waited for: a DialContext of the caller's that ignores
// its context must not delay the connection that was found.
type search struct {
	*dialer
	with    access
	found   chan finding // has room for all
	reasons []string     // one text for each failure
	master  error        // error of the last connection to a master
	refused error        // the last error reply of a sentinel
	others  int          // number of sentinels that failed without an error reply
	advised bool         // a reason says what to do, such as to give a password

	mu      sync.Mutex
	over    bool            // no connection is wanted any more
	masters map[string]bool // masters that a goroutine tries, or tried
}

type finding struct {
	sentinel string
	conn     redis.Conn
	err      error
	master   bool // err comes from the connection to the master
}

// unfound is the error that lists what came of each sentinel. If all sentinels
// that answered lead to one master, it unwraps to that master's error, such as
// a refused password. If all of them refused, they are no sentinels, and it
// unwraps to the last refusal.
type unfound struct {
	text   string
	master error
}

func (e *unfound) Error() string { return e.text }
func (e *unfound) Unwrap() error { return e.master }

// unfound returns the error of the search. Called when no sentinel is being
// asked any more, or ctx has ended.
func (s *search) unfound() error {
	slices.Sort(s.reasons)
	text := fmt.Sprintf("no sentinel leads to a master named %q: %s", s.dialer.master,
		strings.Join(s.reasons, "; "))
	if !s.advised {
		text += "; check that name and the sentinels' addresses"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.masters) == 1:
		return &unfound{text, s.master}
	case len(s.masters) == 0 && s.others == 0:
		return &unfound{text, s.refused}
	}
	return errors.New(text)
}

func (s *search) failed(f finding) {
	s.reasons = append(s.reasons, fmt.Sprintf("sentinel %s: %v", f.sentinel, f.err))
	var says *advised
	s.advised = s.advised || errors.As(f.err, &says)
	var reply redis.Error
	switch {
	case f.master:
		s.master = f.err
	case errors.As(f.err, &reply):
		s.refused = f.err
	default:
		s.others++
	}
}

// end closes every connection that is found too late.
func (s *search) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for {
		select {
		case f := <-s.found:
			if f.conn != nil {
				_ = f.conn.Close()
			}
		default:
			return
		}
	}
}

// ask is the goroutine of one sentinel.
func (s *search) ask(ctx context.Context, sentinel string) {
	f := finding{sentinel: sentinel}
	address, err := s.askSentinel(ctx, sentinel)
	switch {
	case err != nil:
		f.err = err
	case !s.reserve(address):
		f.err = fmt.Errorf("leads to %s too", address)
	default:
		f.conn, f.err = s.toMaster(ctx, address)
		f.master = f.err != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		if f.conn != nil {
			_ = f.conn.Close()
		}
		return
	}
	s.found <- f
}

// reserve reports whether no other goroutine connects, or connected, to the
// master.
func (s *search) reserve(master string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	reserved := !s.masters[master]
	s.masters[master] = true
	return reserved
}

func (s *search) toMaster(ctx context.Context, address string) (redis.Conn, error) {
	c, err := s.open(ctx, s.with, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("master %s: %w", address, err)
	}
	role, err := redis.Values(redis.DoContext(c, ctx, "ROLE"))
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "NOPERM "):
		err = fmt.Errorf("%w; let the user's ACL allow +role, which tells a master from a replica", err)
	case err == nil && len(role) > 0:
		if name, _ := redis.String(role[0], nil); name == "master" {
			return c, nil
		}
		err = errors.New("is not a master")
	case err == nil:
		err = errors.New("an empty reply to ROLE")
	}
	_ = c.Close()
	return nil, fmt.Errorf("%s: %w", address, err)
}

func (s *search) askSentinel(ctx context.Context, address string) (master string, err error) {
	p := &peer{dialer: s.dialer, found: s.with, who: sentinelName,
		connect: s.net.DialContext, tls: s.with.sentinelTLS, login: s.with.sentinel}
	c, err := p.open(ctx, "tcp", address, 0)
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := redis.Strings(redis.DoContext(c, ctx, "SENTINEL", "get-master-addr-by-name",
		s.dialer.master))
	switch {
	case errors.Is(err, redis.ErrNil):
		return "", errors.New("knows no such master")
	case err != nil:
		return "", p.conceal(s.with, err)
	case len(reply) != 2:
		return "", fmt.Errorf("answered with %d elements instead of host and port", len(reply))
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}
