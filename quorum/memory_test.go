package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// server is a server in memory. Its keys end by the world's clock. It forgets
// nothing by itself: a test does that by restart and drop.
type server struct {
	name  string
	clock lock.Clock

	mu       sync.Mutex
	run      int       // counts restarts
	began    time.Time // of this run
	keys     map[string]*entry
	last     int64 // last fencing number
	ahead    int64 // added to numbers drawn, as a clock would
	refused  error // it can be no member
	version  string
	id       string        // run id that it shares with another name; else its own
	gate     chan struct{} // not nil: calls wait until it is closed
	gated    string        // the call that waits; empty: all
	faults   map[string]error
	lateRun  map[string]bool // ops that are executed and whose reply is lost
	watches  map[string][]*watching
	calls    []string
	late     bool         // attempts, renewals and releases that wait are executed after their context ended
	attempts int          // TryAs calls that got here
	undone   map[int]bool // attempts of which the grant was released
	stored   *sync.Cond   // a key was written
}

// await returns when key has a value.
func (s *server) await(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.live(key) == nil {
		s.stored.Wait()
	}
}

type entry struct {
	value string
	ends  time.Time
}

type watching struct{ wake func() }

func (s *server) live(key string) *entry {
	e := s.keys[key]
	if e != nil && !s.clock.Now().Before(e.ends) {
		delete(s.keys, key)
		e = nil
	}
	return e
}

// changed wakes who watches key. s.mu is held; the wakes run without it.
func (s *server) changed(key string) {
	ws := s.watches[key]
	delete(s.watches, key)
	for _, w := range ws {
		go w.wake()
	}
}

// set writes a value against all rules, as another client may.
func (s *server) set(key, value string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[key] = &entry{value, s.clock.Now().Add(ttl)}
	s.changed(key)
}

// drop loses a key before its time.
func (s *server) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
	s.changed(key)
}

// restart begins another run. The server keeps its keys, as with AOF, unless
// empty is set. Its numbers go on, as they do where a clock draws them.
func (s *server) restart(empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run++
	s.began = s.clock.Now()
	if empty {
		s.keys = map[string]*entry{}
	}
}

func (s *server) value(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.live(key); e != nil {
		return e.value
	}
	return ""
}

// fail makes calls of op return err; nil ends that. If executed is set, they
// are carried out all the same.
func (s *server) fail(op string, err error, executed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op], s.lateRun[op] = err, executed
}

// hold makes all calls wait until the func it returns is called.
func (s *server) hold() (free func()) { return s.holdOp("") }

// holdOp is hold for one kind of call.
func (s *server) holdOp(op string) (free func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.gate, s.gated = gate, op
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		if s.gate == gate {
			s.gate = nil
		}
		s.mu.Unlock()
		close(gate)
	}
}

// asked returns how many calls of op the server got.
func (s *server) asked(op string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == op {
			n++
		}
	}
	return n
}

func (s *server) forgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// do is one call: f is what it does on the server. It returns an error without
// a reply, and whether f ran all the same.
func (s *server) do(ctx context.Context, op string, f func()) (err error, ran bool) {
	s.mu.Lock()
	s.calls = append(s.calls, op)
	// A waiter that asks without a pause stops virtual time: no test would end.
	if len(s.calls) > 100_000 {
		panic("server " + s.name + " was asked too often: " + op)
	}
	gate := s.gate
	if s.gated != "" && s.gated != op {
		gate = nil
	}
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			if s.late && (op == "try" || op == "extend" || op == "release") {
				go func() {
					<-gate
					s.mu.Lock()
					defer s.mu.Unlock()
					f()
				}()
			}
			return context.Cause(ctx), false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.faults[op]; err != nil {
		if s.lateRun[op] {
			f()
		}
		return err, s.lateRun[op]
	}
	if ctx.Err() != nil {
		return context.Cause(ctx), false
	}
	f()
	return nil, true
}

// client is one process's connection to a server: a Member.
type client struct {
	*server
	plain bool // draws no numbers

	armed map[*memGrant]*watching
}

var _ quorum.Member = (*client)(nil)

func (c *client) Contract() backend.Backend { return c }

// Try is not used: a quorum gives its own token to TryAs.
func (c *client) Try(context.Context, string, time.Duration) (backend.Grant, error) {
	return nil, errors.ErrUnsupported
}

type youngError struct{ in time.Duration }

func (e youngError) Error() string          { return "too young" }
func (e youngError) VotesIn() time.Duration { return e.in }
func (e youngError) Passing() bool          { return true }

type unfit struct{ why string }

func (e unfit) Error() string { return e.why }
func (e unfit) Passing() bool { return false }

type away struct{ why string }

func (e away) Error() string { return e.why }
func (e away) Passing() bool { return true }

func (c *client) String() string { return c.name }

func (s *server) runID() string {
	if s.id != "" {
		return s.id
	}
	return fmt.Sprintf("%s-run-%d", s.name, s.run)
}

func (c *client) Ready(ctx context.Context, age time.Duration) (server, version string, err error) {
	lost, _ := c.do(ctx, "ready", func() {
		server, version, err = c.runID(), c.version, c.refused
		if up := c.clock.Now().Sub(c.began); err == nil && up < age+2*time.Second {
			err = youngError{age + 2*time.Second - up}
		}
	})
	if lost != nil {
		return "", "", lost
	}
	return server, version, err
}

func (c *client) TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (backend.Grant,
	error) {
	if ttl < time.Millisecond {
		return nil, errors.New("TTL is too short")
	}
	g := &memGrant{c: c, key: key, token: token, term: backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}}
	var refusal error
	err, ran := c.do(ctx, "try", func() {
		c.attempts++
		g.attempt = c.attempts
		e := c.live(key)
		switch {
		case c.runID() != server:
			refusal = away{"another server"}
		case e != nil:
			refusal = &lock.HeldError{Key: key, Owner: e.value, Left: e.ends.Sub(c.clock.Now())}
		default:
			c.keys[key] = &entry{token, c.clock.Now().Add(ttl)}
			c.stored.Broadcast()
			if !c.plain {
				c.last = max(c.last+1, c.ahead)
				g.fence = c.last
			}
			c.changed(key)
		}
	})
	switch {
	case err != nil && (ran || ctx.Err() != nil):
		return nil, &backend.UnsureError{Grant: g, Err: err}
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, refusal
	}
	return g, nil
}

func (c *client) Raise(ctx context.Context, granted backend.Grant, number int64) (err error) {
	g := granted.(*memGrant)
	lost, _ := c.do(ctx, "raise", func() {
		if !c.ours(g) {
			err = fmt.Errorf("%w: not ours", lock.ErrLost)
			return
		}
		c.last = max(c.last, number)
	})
	return errors.Join(lost, err)
}

// memGrant is one vote.
type memGrant struct {
	c     *client
	key   string
	token string
	term  backend.Term
	fence int64

	attempt int // which one of the server's
}

func (g *memGrant) Token() string      { return g.token }
func (g *memGrant) Term() backend.Term { return g.term }
func (g *memGrant) Fence() int64       { return g.fence }

func (s *server) ours(g *memGrant) bool {
	e := s.live(g.key)
	return e != nil && e.value == g.token
}

func (g *memGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.c.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

func (c *client) ExtendAll(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	sent := backend.ReadClock(ctx)
	err, _ := c.do(ctx, "extend", func() {
		for i := range gs {
			if g := gs[i].(*memGrant); c.ours(g) {
				c.keys[g.key].ends = c.clock.Now().Add(ttl)
				terms[i] = backend.Term{Sent: sent, TTL: ttl}
			} else {
				errs[i] = fmt.Errorf("%w: not ours", lock.ErrLost)
			}
		}
	})
	if err != nil {
		return make([]backend.Term, len(gs)), slices.Repeat([]error{err}, len(gs))
	}
	return terms, errs
}

func (g *memGrant) Release(ctx context.Context) error {
	var lost error
	err, _ := g.c.do(ctx, "release", func() {
		g.c.undone[g.attempt] = true
		if !g.c.ours(g) {
			lost = fmt.Errorf("%w: not ours", lock.ErrLost)
			return
		}
		delete(g.c.keys, g.key)
		g.c.changed(g.key)
	})
	if err != nil {
		return err
	}
	return lost
}

func (c *client) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	lost, _ := c.do(ctx, "await", func() {
		cancel = c.arm(key, wake)
		free = c.live(key) == nil
	})
	return cancel, free, lost
}

// arm adds a watch. s.mu is held.
func (s *server) arm(key string, wake func()) (cancel func()) {
	w := &watching{wake}
	s.watches[key] = append(s.watches[key], w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches[key] = slices.DeleteFunc(s.watches[key], func(o *watching) bool { return o == w })
	}
}

func (c *client) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	lost, _ := c.do(ctx, "watch", func() {
		for i := range gs {
			g := gs[i].(*memGrant)
			if !c.ours(g) {
				errs[i] = fmt.Errorf("%w: not ours", lock.ErrLost)
				continue
			}
			c.disarm(g)
			w := &watching{holders[i].Touched}
			c.watches[g.key] = append(c.watches[g.key], w)
			c.armed[g] = w
		}
	})
	if lost != nil {
		return slices.Repeat([]error{lost}, len(gs))
	}
	return errs
}

// disarm ends the watch of g. c.mu is held.
func (c *client) disarm(g *memGrant) {
	w := c.armed[g]
	delete(c.armed, g)
	c.watches[g.key] = slices.DeleteFunc(c.watches[g.key], func(o *watching) bool { return o == w })
}

func (c *client) Unwatch(granted backend.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disarm(granted.(*memGrant))
}

func (c *client) Describe(ctx context.Context, key string) (info lock.Info, err error) {
	lost, _ := c.do(ctx, "describe", func() {
		info.Key = key
		if e := c.live(key); e != nil {
			info.Value = e.value
			info.Held = &lock.HeldError{Key: key, Owner: e.value, Left: e.ends.Sub(c.clock.Now())}
		}
	})
	return info, lost
}

func (c *client) ForceRelease(ctx context.Context, key, value string) (deleted bool, err error) {
	lost, _ := c.do(ctx, "force", func() {
		if e := c.live(key); e != nil && e.value == value {
			delete(c.keys, key)
			c.changed(key)
			deleted = true
		}
	})
	return deleted, lost
}

// newServers returns servers that have been up for a day.
func newServers(clock lock.Clock, names ...string) []*server {
	var all []*server
	for _, name := range names {
		s := &server{name: name, clock: clock, began: clock.Now().Add(-24 * time.Hour),
			keys: map[string]*entry{}, faults: map[string]error{}, lateRun: map[string]bool{},
			watches: map[string][]*watching{}, undone: map[int]bool{}, version: "7.0.0"}
		s.stored = sync.NewCond(&s.mu)
		all = append(all, s)
	}
	return all
}

// join returns the members of one process.
func join(servers []*server) []quorum.Member {
	var members []quorum.Member
	for _, s := range servers {
		members = append(members, &client{server: s, armed: map[*memGrant]*watching{}})
	}
	return members
}

var bg = context.Background()

// open returns the backend of one process. It is closed with the test.
func open(t *testing.T, servers []*server, cfg quorum.Config) *quorum.Backend {
	t.Helper()
	b, err := quorum.New(join(servers), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
