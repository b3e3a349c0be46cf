// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// scheme begins every address of [Open].
const scheme = "zookeeper://"

// Options are the choices of [Open]. The zero Options work.
type Options struct {
	Backend Config
	Lock    lock.Config
}

// Open connects to ZooKeeper and returns a [lock.Client] that closes the
// connection. The address is that of [Parse]. Open waits for a session and
// creates a missing chroot. So a wrong address, missing rights or a TTL that
// the servers refuse are reported here. If the servers keep sessions for a
// shorter time than o.Lock.TTL, that time is the Client's TTL, and
// Config.Logger says so.
func Open(ctx context.Context, address string, o Options) (*lock.Client, error) {
	servers, cfg, err := Parse(address, o.Backend)
	if err != nil {
		return nil, err
	}
	opened, err := New(servers, cfg)
	if err != nil {
		return nil, err
	}
	b := opened.engine
	b.usual = b.Advise(backend.Settings{TTL: o.Lock.TTL}).TTL
	locks, err := lock.New(opened, o.Lock)
	if err == nil {
		// Through the Client, so that the session counts by its clock.
		_, err = locks.Inspect(context.WithValue(ctx, opening{}, redacted(address)), "")
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
	}
	if err == nil {
		locks, err = b.shorten(locks)
	}
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return locks, nil
}

// shorten returns a Client whose TTL the servers grant.
func (b *engine) shorten(locks *lock.Client) (*lock.Client, error) {
	b.Lock()
	longest := b.longest
	b.Unlock()
	if longest == 0 || longest >= b.usual {
		return locks, nil
	}
	shorter, err := locks.With(func(cfg *lock.Config) { cfg.TTL = longest })
	if err != nil {
		return nil, fmt.Errorf("zookeeper: the servers keep sessions for at most %v (their maxSessionTimeout), which is less than Config.TTL (%v): %w",
			longest, b.usual, err)
	}
	b.cfg.Logger.Warn("the servers keep sessions for a shorter time than Config.TTL (their maxSessionTimeout); Config.TTL is set to that time",
		"asked", b.usual, "granted", longest)
	b.usual = longest
	return shorter, nil
}

// Parse reads an address into the servers for [New] and a Config for it, which
// is cfg with the address's chroot and user:
//
//	zookeeper://10.0.0.1:2181,10.0.0.2:2181/locks
//	zookeeper://ann:secret@10.0.0.1/locks
//
// A missing port is 2181. Other characters than letters and digits may be
// written as in any URL, such as %2F.
func Parse(address string, cfg Config) ([]string, Config, error) {
	bad := func(format string, args ...any) ([]string, Config, error) {
		return nil, Config{}, fmt.Errorf("zookeeper: the address %q %s", redacted(address),
			fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(address, scheme)
	if !ok {
		return bad("does not begin with %s", scheme)
	}
	if strings.ContainsAny(rest, "?#") {
		return bad("has options behind ? or #, and there are none: write %%3F or %%23 in a path")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	user, hosts, named := cutLast(hosts, "@")
	chroot, err := url.PathUnescape(strings.TrimSuffix(path, "/"))
	if err != nil {
		return bad("has a path that cannot be read: %v", err)
	}
	if chroot != "" {
		if cfg.Chroot != "" && cfg.Chroot != "/"+chroot {
			return bad("names another chroot than Config.Chroot, which is %q: set one of them", cfg.Chroot)
		}
		cfg.Chroot = "/" + chroot
	}
	if named {
		if cfg.User != "" {
			return bad("names a user, and so does Config.User: set one of them")
		}
		name, password, _ := strings.Cut(user, ":")
		var wrong error
		cfg.User, err = url.PathUnescape(name)
		cfg.Password, wrong = url.PathUnescape(password)
		if err != nil || wrong != nil || cfg.User == "" {
			return bad("has a user or a password that cannot be read: write every sign but letters and digits as %%XX")
		}
	}
	servers := strings.Split(hosts, ",")
	for _, server := range servers {
		if server == "" {
			return bad("lacks a server: write %shost:port,host:port/path", scheme)
		}
	}
	return servers, cfg, nil
}

// redacted is an address without its password, for errors. A password may
// contain a slash by mistake, so everything up to the last @ counts.
func redacted(address string) string {
	rest := strings.TrimPrefix(address, scheme)
	user, hosts, _ := cutLast(rest, "@")
	name, _, secret := strings.Cut(user, ":")
	if !secret {
		return address
	}
	return strings.TrimSuffix(address, rest) + name + ":…@" + hosts
}

// cutLast splits s at the last sep; found is false, and before empty, if there
// is none.
func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return "", s, false
	}
	return s[:at], s[at+len(sep):], true
}

// opening is the key of a context's value: the address that [Open] opens.
type opening struct{}

// mostReached is how many connections may end while Open creates the chroot.
const mostReached = 5

// reach opens a session and creates a missing chroot. If the connection ends
// meanwhile, it goes on with the next one.
func (b *engine) reach(ctx context.Context, address string) error {
	var err error
	for range mostReached {
		_, err = sessions.Retried(tooShort, func() (backend.Grant, error) { return nil, b.makeChroot(ctx) })
		var op *net.OpError // of a write
		if !errors.Is(err, zk.ErrConnectionClosed) && !errors.As(err, &op) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return b.trouble("open", address, err)
	}
	return nil
}

// makeChroot creates a missing chroot.
func (b *engine) makeChroot(ctx context.Context) error {
	s, err := b.session(ctx, b.usual)
	if err == nil && b.cfg.Chroot != "" {
		var there bool
		there, err = s.there(ctx, b.cfg.Chroot)
		if err == nil && !there {
			err = s.parents(ctx, b.cfg.Chroot)
		}
	}
	return err
}
