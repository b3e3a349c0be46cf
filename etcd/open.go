// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

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
// It asks etcd for a key and for the version. So it can refuse a wrong address,
// a wrong password and a version below 3.4.
func Open(ctx context.Context, endpoints []string, o Options) (*lock.Client, error) {
	o.Client.Endpoints = endpoints
	if o.Client.DialKeepAliveTime == 0 {
		o.Client.DialKeepAliveTime, o.Client.DialKeepAliveTimeout = 7*time.Second, 3*time.Second
	}
	if o.Client.Context == nil {
		o.Client.Context = context.WithoutCancel(ctx)
	}
	if o.Backend.Logger == nil {
		o.Backend.Logger = o.Lock.Logger
	}
	if o.Client.DialTimeout == 0 { // of the question for a user's token
		o.Client.DialTimeout = cmp.Or(o.Backend.Timeout, defaultTimeout)
	}
	client, err := clientv3.New(o.Client)
	switch {
	case err != nil && silent(err):
		return nil, unreachable(endpoints, o.Client.TLS != nil, err)
	case err != nil:
		return nil, trouble("open", fmt.Sprint(endpoints), err)
	}
	b, err := New(client, o.Backend)
	if err == nil {
		err = b.engine.answers(ctx, endpoints, o.Client.TLS != nil)
	}
	if err == nil {
		b.engine.owned = true
		var locks *lock.Client
		if locks, err = lock.New(b, o.Lock); err == nil {
			return locks, nil
		}
	}
	_ = client.Close()
	return nil, err
}

// answers returns an error unless a server answers that locks can work with.
func (b *engine) answers(ctx context.Context, endpoints []string, secured bool) error {
	call, cancel := b.call(ctx)
	defer cancel()
	_, err := b.client.Get(call, "getsetlock/", clientv3.WithCountOnly())
	switch at := fmt.Sprint(endpoints); {
	case code(err) == codes.PermissionDenied: // the password is right; the locks' own keys may be allowed
	case err != nil && ctx.Err() == nil && silent(err):
		if _, why := b.status(ctx); silent(why) { // it says why there is no connection
			err = why
		}
		return unreachable(endpoints, secured, err)
	case err != nil:
		return trouble("open", at, err)
	}
	return b.modernEnough(ctx)
}

// silent reports whether err came from the connection, or from no reply, and
// not from etcd.
func silent(err error) bool {
	return code(err) == codes.DeadlineExceeded || code(err) == codes.Unavailable && !said(err)
}
