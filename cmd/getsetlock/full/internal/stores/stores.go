// Package stores has the stores other than Redis in which the full command
// takes locks: etcd and ZooKeeper.
//
// It assumes of clocks what packages etcd and zookeeper assume.
package stores

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/internal/bench"
	"github.com/getsetlock/getsetlock/lock"
)

// All returns every store, by the scheme of its addresses.
func All() map[string]backing.Store {
	return map[string]backing.Store{"etcd": etcdStore(), "zookeeper": zookeeperStore()}
}

// storeError is trouble with a store, with whether it may pass.
type storeError struct {
	error
	passes bool
}

func (e *storeError) Unwrap() error { return e.error }

// Passing reports whether the trouble may pass.
func (e *storeError) Passing() bool { return e.passes }

// badCertificate reports that the server's certificate was not accepted.
func badCertificate(text string) bool {
	return strings.Contains(text, "x509:") || strings.Contains(text, "certificate")
}

// adapter returns what bench measures: open connects to the store of a
// measurement.
func adapter(name string, store func() backing.Store,
	open func(ctx context.Context, a backing.Address, o backing.Options, s bench.Server) (bench.Locker,
		error),
) bench.Adapter {
	return bench.Adapter{Name: name, Open: func(ctx context.Context, s bench.Server) (bench.Locker, error) {
		one := store()
		a, _, err := backing.Parse(s.Target, map[string]backing.Store{schemeOf(s.Target): one})
		if err != nil {
			return nil, err
		}
		return open(ctx, a, backing.Options{Password: s.Access.Password, PasswordFile: s.Access.PasswordFile,
			CACert: s.Access.CACert, Cert: s.Access.Cert, Key: s.Access.Key, Timeout: benchTimeout,
			Clock: lock.Machine, Logger: slog.New(slog.DiscardHandler)}, s)
	}}
}

// benchTimeout bounds one answer in a measurement.
const benchTimeout = 10 * time.Second

func schemeOf(raw string) string {
	scheme, _, _ := strings.Cut(raw, "://")
	return strings.TrimSuffix(scheme, "s")
}

// ours measures this project's lock.
type ours struct {
	client *lock.Client
	conn   backing.Conn
}

func newOurs(ctx context.Context, conn backing.Conn, err error, s bench.Server) (bench.Locker, error) {
	if err != nil {
		return nil, err
	}
	var client *lock.Client
	ttl, err := conn.Longest(ctx, s.TTL)
	if err == nil {
		client, err = lock.New(conn.Backend(), lock.Config{TTL: ttl})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &ours{client, conn}, nil
}

func (o *ours) Lock(ctx context.Context, key string) (bench.Held, error) {
	lease, err := o.client.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (o *ours) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), benchTimeout)
	defer cancel()
	return errors.Join(o.client.Close(ctx), o.conn.Close())
}

// release is a lock of another library that is held.
type release func() error

func (r release) Release() error { return r() }
