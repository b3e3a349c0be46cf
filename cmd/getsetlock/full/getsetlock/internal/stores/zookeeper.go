// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/zookeeper"
)

func zookeeperStore() backing.Store {
	return backing.Store{Name: "ZooKeeper", Port: "2181", Path: "chroot", Open: openZookeeper}
}

// zookeeperConn is a connection to ZooKeeper.
type zookeeperConn struct {
	backend *zookeeper.Backend
	address backing.Address
	options backing.Options
}

// openZookeeper makes a backend. It sends nothing yet.
func openZookeeper(_ context.Context, a backing.Address, o backing.Options) (backing.Conn, error) {
	password, err := o.Login(a)
	if err != nil {
		return nil, err
	}
	secure, err := o.TLS(a)
	if err != nil {
		return nil, err
	}
	b, err := zookeeper.New(a.Servers, zookeeper.Config{
		Chroot: a.Path, User: a.User, Password: password, TLS: secure, Note: o.Note, Timeout: o.Timeout,
		Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &zookeeperConn{b, a, o}, nil
}

func (c *zookeeperConn) Backend() backend.Store { return c.backend }

func (c *zookeeperConn) Close() error { return c.backend.Close() }

// Longest opens a session. Servers refuse no TTL for being too long.
func (c *zookeeperConn) Longest(ctx context.Context, ttl time.Duration) (time.Duration, error) {
	if c.backend.Contract().(backend.Advisor).Fits(ttl, 0, 0) != nil {
		return ttl, nil
	}
	return c.backend.Longest(ctx, ttl)
}

// Unfit refuses no name: a lock's nodes and the nodes of longer names differ.
func (c *zookeeperConn) Unfit(context.Context, string) (string, error) { return "", nil }

func (c *zookeeperConn) Look(ctx context.Context, name string) (*backing.Lock, error) {
	info, err := c.backend.Contract().(backend.Inspector).Describe(ctx, name)
	if err != nil || info.Held == nil {
		return nil, err
	}
	l := lockOf(info)
	return &l, nil
}

func (c *zookeeperConn) List(ctx context.Context, prefix string) ([]backing.Lock, error) {
	infos, err := c.backend.List(ctx, prefix)
	var all []backing.Lock
	for _, info := range infos {
		all = append(all, lockOf(info))
	}
	return all, err
}

// lockOf describes a held lock. ZooKeeper tells nobody when a session ends.
func lockOf(info lock.Info) backing.Lock {
	l := backing.Lock{Name: info.Key, Type: "node", Value: info.Value, Left: -1}
	seen, ok := info.Detail.(*zookeeper.Info)
	if !ok {
		return l
	}
	l.Owner, l.Note, l.Fence, l.Waiters = seen.Holder, seen.Note, seen.Fence, int64(len(seen.Waiting))
	if id, ours := strings.CutPrefix(seen.Holder, "_c_"); ours {
		id, _, _ = strings.Cut(id, "-")
		l.Owner = fmt.Sprintf("0x%x/%s", seen.Session, id) // the token of a lease of package zookeeper
	}
	return l
}

func (c *zookeeperConn) Free(ctx context.Context, name, value string) (bool, error) {
	return c.backend.Contract().(backend.Inspector).ForceRelease(ctx, name, value)
}

func (c *zookeeperConn) Advice(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "(set Config.TLS.Certificates)"):
		return "give the client's certificate and key (--cert, --key)"
	case badCertificate(text):
		return "name a file with the certificate of the authority that signed the server's (--cacert)"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "the server does not speak TLS: write zookeeper://"
	case strings.Contains(text, "TLS with "):
		return foreign(c.address.Servers[0], "ZooKeeper", c.address)
	}
	if !out.Passing(err) {
		return ""
	}
	p := &probe{c.address, c.options}
	for _, server := range c.address.Servers {
		if said := p.greets(server); said != "" {
			return said
		}
	}
	return ""
}
