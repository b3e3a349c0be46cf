// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const (
	defaultTimeout = 5 * time.Second  // of Config
	defaultTTL     = 30 * time.Second // of lock.Config; servers allow 40 s by default
)

// Config holds the choices of a Backend. The zero Config is right for servers
// without users and TLS.
type Config struct {
	// Chroot is the path below which all locks are, such as "/locks". It is
	// created where it is missing and the user has the right to. Empty: the
	// root.
	Chroot string

	// User and Password name a user of ZooKeeper's scheme "digest". New nodes
	// then belong to that user alone. Empty: everybody may do everything with
	// them, as with Curator's.
	User, Password string

	// ACL are the rights on new nodes, if neither of these two is right. All
	// clients of a lock need to read its nodes.
	ACL []zk.ACL

	// TLS is used if it is not nil. Without a ServerName, a server's name in
	// the list must be in its certificate.
	TLS *tls.Config

	// Dial opens connections. Defaults to that of [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Note is the data of each node, for people who look at nodes: a host's
	// name, for example.
	Note string

	// Timeout is the longest wait for one reply. Defaults to 5 s.
	Timeout time.Duration

	// Logger learns of what may harm: sessions that a server keeps for a
	// shorter time than was asked for, short sessions at observers, ignored
	// children, and clients of kazoo. Defaults to [slog.Default].
	Logger *slog.Logger
}

// Backend is a ZooKeeper ensemble for locks, as a program opened it. [lock.New]
// makes a Client of it. Waiters stand in ZooKeeper's own queue.
type Backend struct{ engine *engine }

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// SetServers replaces the list of servers, for example after the ensemble
// changed. Connections that stand are kept.
func (b *Backend) SetServers(servers []string) error { return b.engine.hosts.set(servers) }

// List looks at every held lock whose name begins with prefix, in the order of
// their names. Each comes as from [lock.Client.Inspect]. It reads every node
// below the chroot whose path fits the prefix. If some may not be read, an
// error that names one comes along with the locks.
func (b *Backend) List(ctx context.Context, prefix string) ([]lock.Info, error) {
	return b.engine.list(ctx, prefix)
}

// Longest returns the TTL that the servers grant where ttl is asked for: ttl,
// or less if their maxSessionTimeout is less. It opens a session. The error
// says why there is none, or that the servers grant no TTL as short as that.
func (b *Backend) Longest(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	return b.engine.granted(ctx, ttl)
}

// Close ends the sessions without held locks, and joins every goroutine. Locks
// that are still held free themselves after their TTL, since their holders may
// still be at work. A [lock.Client] closes its Backend.
func (b *Backend) Close() error { return b.engine.Close() }

var (
	_ backend.Store         = (*Backend)(nil)
	_ backend.Backend       = (*engine)(nil)
	_ backend.BatchExtender = (*engine)(nil)
	_ backend.Queuer        = (*engine)(nil)
	_ backend.Waker         = (*engine)(nil)
	_ backend.Advisor       = (*engine)(nil)
	_ backend.Inspector     = (*engine)(nil)
	_ io.Closer             = (*engine)(nil)
	_ backend.Place         = (*place)(nil)
	_ backend.Fenced        = (*grant)(nil)
)

// engine is the contract of a Backend.
type engine struct {
	sessions.Pool[*session] // its Open: by TTL, see clipped

	hosts   *hosts
	noticed notices
	cfg     Config
	usual   time.Duration  // TTL of the Client that Open made; 0: unknown
	opening chan struct{}  // capacity 1: filled while a session is opened
	calm    sessions.Names // that this Backend left without any node: an attempt need not look first

	// Guarded by the Pool's mutex.
	longest time.Duration                   // the servers grant no more; 0: nothing is known
	margins map[time.Duration]time.Duration // by TTL: the Client's Margin
}

// New returns a Backend for the ensemble whose servers are host:port. It
// connects at the first call.
func New(servers []string, cfg Config) (*Backend, error) {
	b := &engine{hosts: &hosts{}, cfg: cfg, opening: make(chan struct{}, 1),
		margins: map[time.Duration]time.Duration{}}
	if err := b.hosts.set(servers); err != nil {
		return nil, err
	}
	chroot := strings.TrimSuffix(cfg.Chroot, "/")
	switch {
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("zookeeper: Config.Timeout is %v; it must be positive", cfg.Timeout)
	case chroot != "" && chroot[0] != '/':
		return nil, fmt.Errorf("zookeeper: Config.Chroot is %q; it must begin with a slash", cfg.Chroot)
	case cfg.User == "" && cfg.Password != "":
		return nil, errors.New("zookeeper: Config.Password is set without Config.User")
	case strings.Contains(cfg.User, ":"):
		return nil, fmt.Errorf("zookeeper: Config.User is %q; it must not contain a colon", cfg.User)
	}
	if chroot != "" {
		if why := refused(chroot); why != "" {
			return nil, fmt.Errorf("zookeeper: Config.Chroot %q %s", cfg.Chroot, why)
		}
	}
	b.cfg.Chroot = chroot
	if cfg.Timeout == 0 {
		b.cfg.Timeout = defaultTimeout
	}
	if cfg.Logger == nil {
		b.cfg.Logger = slog.Default()
	}
	b.Begin()
	return &Backend{b}, nil
}

// Close is that of the Backend.
func (b *engine) Close() error { return b.End((*session).leave) }

// Advise renews later than other backends do: trust counts from the sign of
// life before the last one.
func (b *engine) Advise(cfg backend.Settings) backend.Settings {
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.RenewEvery == 0 {
		cfg.RenewEvery = cfg.TTL * 2 / 3
	}
	return cfg
}

// Fits refuses a TTL below [LeastTTL], and a margin that leaves no time to
// renew.
func (b *engine) Fits(ttl, _, margin time.Duration) error {
	if err := fits(ttl); err != nil {
		return err
	}
	if margin > ttl/4 {
		return fmt.Errorf(
			"zookeeper: Config.Margin is %v; with Config.TTL %v it must not exceed %v, since trust counts from the sign of life before the last one",
			margin, ttl, ttl/4)
	}
	b.Lock()
	defer b.Unlock()
	if len(b.margins) >= mostMargins {
		clear(b.margins)
	}
	b.margins[ttl] = margin
	return nil
}

// mostMargins is for how many TTLs the margin is remembered.
const mostMargins = 1024

// suits refuses a session that the servers keep for so much less than the TTL
// that trust would end before it can be renewed.
func (b *engine) suits(s *session, ttl time.Duration) error {
	s.Lock()
	granted := s.timeout
	s.Unlock()
	if granted >= ttl {
		return nil
	}
	b.Lock()
	margin := b.margins[ttl]
	b.Unlock()
	if margin <= granted/4 {
		return nil
	}
	return &sessions.Trouble{Text: fmt.Sprintf(
		"zookeeper: the servers keep sessions for at most %v (their maxSessionTimeout), and Config.Margin must not exceed a quarter of that; lower Config.TTL to %v",
		granted, granted), Err: fmt.Errorf("Config.TTL is %v, Config.Margin %v", ttl, margin), Replied: true}
}

// granted is Longest of the Backend.
func (b *engine) granted(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	if err := fits(ttl); err != nil {
		return 0, err
	}
	_, err := sessions.Retried(tooShort, func() (backend.Grant, error) {
		s, err := b.session(ctx, ttl)
		if err == nil {
			s.Lock()
			ttl = min(ttl, s.timeout)
			s.Unlock()
		}
		return nil, err
	})
	if err != nil {
		return 0, b.trouble("open a session at", strings.Join(b.hosts.list(), ","), err)
	}
	return ttl, nil
}

// Timeout says nothing: a Release may have to wait for a new leader.
func (b *engine) Timeout() time.Duration { return 0 }

// path is the parent of a lock's nodes.
func (b *engine) path(name string) string { return b.cfg.Chroot + "/" + name }

// acl are the rights on new nodes.
func (b *engine) acl() []zk.ACL {
	switch {
	case b.cfg.ACL != nil:
		return b.cfg.ACL
	case b.cfg.User != "":
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll)
}

// someTTL is that of any open session, for calls that take none.
func (b *engine) someTTL() time.Duration {
	b.Lock()
	defer b.Unlock()
	for ttl := range b.Open {
		return ttl
	}
	if b.usual > 0 {
		return b.usual
	}
	return defaultTTL
}

// Try makes one attempt. It looks first, so that a refusal writes nothing. It
// does not look where this Backend was the last to use the lock, and alone. If
// another client was faster, the attempt deletes its own node. It returns:
//
//   - a grant: the lock is taken.
//   - a [*backend.HeldError]: another client has a node under the name.
//   - a [*backend.UnsureError]: the reply was lost. Its grant undoes what may
//     have been done, and so does the Backend by itself.
//   - another error: nothing was taken.
func (b *engine) Try(ctx context.Context, name string, ttl time.Duration) (backend.Grant, error) {
	if err := valid(name, ttl); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return sessions.Retried(tooShort, func() (backend.Grant, error) {
		s, err := b.session(ctx, ttl)
		if err == nil {
			err = b.suits(s, ttl)
		}
		if err != nil {
			return nil, b.trouble("take", name, err)
		}
		return s.take(ctx, name, ttl)
	})
}

// take makes one attempt in a session.
func (s *session) take(ctx context.Context, name string, ttl time.Duration) (backend.Grant, error) {
	if !s.b.calm.Has(name) {
		queue, err := s.look(ctx, name)
		switch {
		case err != nil:
			return nil, s.b.trouble("look at", name, err)
		case len(queue) > 0:
			return nil, held(name, queue[0].name)
		}
	}
	g := s.newGrant(name)
	if err := s.create(ctx, g); err != nil {
		return nil, err
	}
	queue, err := s.stand(ctx, g)
	switch {
	case errors.Is(err, sessions.ErrOver):
		return nil, err
	case err != nil:
		s.Stray(g)
		return nil, &backend.UnsureError{Grant: g, Err: s.b.trouble("take", name, err)}
	case len(queue) == 0 || s.b.path(name)+"/"+queue[0].name != g.path:
		// Another client was faster. The keeper goes on where this delete ends.
		s.b.calm.Set(name, false)
		if _, err := s.remove(ctx, g); err != nil {
			s.Stray(g)
		}
		first := ""
		if len(queue) > 0 {
			first = queue[0].name
		}
		return nil, held(name, first)
	}
	g.alone = len(queue) == 1
	if err := s.granted(g, ttl); err != nil {
		return nil, err
	}
	return g, nil
}

// held returns the error of a refused attempt.
func held(name, holder string) *backend.HeldError {
	return &backend.HeldError{Key: name, Owner: holder, Protocol: "zookeeper"}
}

// tooShort is the error of an attempt that found three sessions over.
const tooShort = "zookeeper: three sessions in a row ended before they could be used: Config.TTL is too short, or the servers answer too late"
