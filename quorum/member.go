package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Member is one server of a quorum, as a program opened it. A *modern.Backend
// is a Member if its Config has a Name.
type Member interface {
	// Contract returns a [Voter].
	backend.Store

	// String names the server in errors. No two members have the same name.
	String() string
}

// Voter is the contract of a [Member]. If it also implements
// [backend.BatchExtender], [backend.Waker], [backend.Advisor],
// [backend.Inspector] or io.Closer, the quorum uses that. Each call returns
// within a few seconds, whatever the server does.
type Voter interface {
	backend.Backend

	// Ready returns the id of the server's present run and its version, as far
	// as the server said them. It asks the server once for each connection. The
	// error is not nil if the server may not vote now:
	//
	//   - If it has not been up for age, the error has a method VotesIn()
	//     time.Duration: how long that will take.
	//   - If the error has a method Passing() bool that returns false, the
	//     server can be no member at all.
	Ready(ctx context.Context, age time.Duration) (server, version string, err error)

	// TryAs is [backend.Backend.Try] with a token of the caller's, which
	// becomes the key's whole value. It sends the command only over a
	// connection on which Ready got this server id. If a [backend.HeldError]
	// names an Owner, that is the key's value.
	TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (backend.Grant, error)

	// Raise makes the member's next fencing number greater than number, if the
	// key still carries the token of g. If it does not, the error wraps
	// [backend.ErrLost].
	Raise(ctx context.Context, g backend.Grant, number int64) error
}

// member is a Voter and what is known of it.
type member struct {
	Voter
	name    string
	index   int
	batch   backend.BatchExtender // nil: grants are renewed one by one
	waker   backend.Waker         // nil: the member cannot report changes
	looks   backend.Inspector     // nil: keys cannot be inspected
	advisor backend.Advisor       // nil: the member has no bounds
	queue   queuer                // nil: the member's server has no queue
	mending atomic.Bool           // a goroutine takes missing votes again

	mu      sync.Mutex
	server  string // id of the run that answered last
	version string
	trouble error // why the member did not answer last; nil: it answered
}

func newMember(index int, m Member) (*member, error) {
	contract := m.Contract()
	voter, ok := contract.(Voter)
	if !ok {
		return nil, fmt.Errorf("quorum: the server %s cannot vote: the contract of its backend, a %T, is no Voter; use package modern",
			m, contract)
	}
	own := &member{Voter: voter, name: m.String(), index: index}
	own.batch, _ = contract.(backend.BatchExtender)
	own.waker, _ = contract.(backend.Waker)
	own.looks, _ = contract.(backend.Inspector)
	own.advisor, _ = contract.(backend.Advisor)
	own.queue, _ = contract.(queuer)
	return own, nil
}

func (m *member) String() string { return m.name }

// answered records what became of a call: nil and "held" are answers, an error
// of another kind is none.
func (m *member) answered(err error) {
	if errors.Is(err, backend.ErrHeld) || errors.Is(err, context.Canceled) {
		err = nil
	}
	m.mu.Lock()
	m.trouble = err
	m.mu.Unlock()
}

// isAway reports whether the member did not answer the last call.
func (m *member) isAway() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble != nil
}

// id returns what all clients call the server alike: the id of its present run,
// or its name if it never answered.
func (m *member) id() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != "" {
		return m.server
	}
	return m.String()
}

// extend renews grants of this member.
func (m *member) extend(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	if m.batch != nil {
		return m.batch.ExtendAll(ctx, gs, ttl)
	}
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	for i, g := range gs {
		terms[i], errs[i] = g.Extend(ctx, ttl)
	}
	return terms, errs
}

func (m *member) close() error {
	if c, ok := m.Voter.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// claims records which member answered with which server id, so that one
// server never has two votes.
type claims struct {
	mu      sync.Mutex
	members map[string]*member
}

// claim records that m's server has this id. The error says that another
// member's server has it.
func (c *claims) claim(m *member, server string) error {
	if server == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, who := range c.members {
		if who == m && id != server {
			delete(c.members, id)
		}
	}
	if other, taken := c.members[server]; taken && other != m {
		return &twinError{m.String(), other.String(), server}
	}
	if c.members == nil {
		c.members = make(map[string]*member)
	}
	c.members[server] = m
	return nil
}

// twinError says that two members are one server.
type twinError struct{ name, other, server string }

func (e *twinError) Error() string {
	return fmt.Sprintf("%s and %s are the same server (run id %s): it has one vote; name another server",
		e.other, e.name, e.server)
}

func (e *twinError) Passing() bool { return false }

// ready asks whether m may vote now, and returns the id of its server.
func (b *engine) ready(ctx context.Context, m *member) (string, error) {
	server, version, err := m.Ready(ctx, b.cfg.GreatestTTL)
	if twin := b.claims.claim(m, server); twin != nil {
		err = twin
	}
	m.mu.Lock()
	if server != "" {
		m.server, m.version = server, version
	}
	m.mu.Unlock()
	return server, err
}

// twin returns an error if m's name has come to lead to the server of another
// member. All votes have one token, so that server would renew them twice. A
// message is sent only over a new connection. If the reply takes longer than
// most, nobody knows, and twin returns nil.
func (b *engine) twin(ctx context.Context, m *member, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_, err := b.ready(ctx, m)
	if twin := (*twinError)(nil); errors.As(err, &twin) {
		return twin
	}
	return nil
}

// vote asks m for its vote.
func (b *engine) vote(ctx context.Context, m *member, key, token string, ttl time.Duration) (backend.Grant,
	error) {
	server, err := b.ready(ctx, m)
	if err != nil {
		m.answered(err)
		return nil, err
	}
	g, err := m.TryAs(ctx, server, key, token, ttl)
	m.answered(err)
	return g, err
}
