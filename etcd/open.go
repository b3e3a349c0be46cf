package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock"
)

// Options are the choices of [Open]. The zero Options work.
type Options struct {
	// Client is the etcd client's own Config: user, password, TLS. Open fills
	// in Endpoints, and keepalives that find a dead connection within 10 s.
	Client clientv3.Config

	// Backend and Lock are the choices of the Backend and the lock.Client.
	Backend Config
	Lock    lock.Config
}

// Open connects to etcd and returns a [lock.Client] that closes the connection.
// It asks etcd for the version once, so that a wrong address or password is
// told here.
func Open(ctx context.Context, endpoints []string, o Options) (*lock.Client, error) {
	o.Client.Endpoints = endpoints
	if o.Client.DialKeepAliveTime == 0 {
		o.Client.DialKeepAliveTime, o.Client.DialKeepAliveTimeout = 7*time.Second, 3*time.Second
	}
	if o.Client.Context == nil {
		o.Client.Context = context.WithoutCancel(ctx)
	}
	client, err := clientv3.New(o.Client)
	if err != nil {
		return nil, fmt.Errorf("etcd: could not open %q: %w", endpoints, err)
	}
	b, err := New(client, o.Backend)
	if err == nil {
		call, cancel := b.call(ctx)
		defer cancel()
		_, err = client.Get(call, "getsetlock/", clientv3.WithCountOnly())
		if refusedByEtcd(err) && code(err).String() == "PermissionDenied" {
			err = nil // the password is right; the locks' own keys may be allowed
		}
		if err != nil {
			err = trouble("open", fmt.Sprint(endpoints), err)
		}
	}
	if err == nil {
		b.owned = true
		var locks *lock.Client
		if locks, err = lock.New(b, o.Lock); err == nil {
			return locks, nil
		}
	}
	_ = client.Close()
	return nil, err
}
