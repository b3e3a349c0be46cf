// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/redisconn"
)

// Options are the settings of [Open]. The zero Options share the locks of
// clients of the dialect Jedis.
type Options struct {
	Redis   redisconn.Options // passwords, certificates, a dialer
	Backend Config            // the lock: the old clients and their fleet
	Lock    lock.Config       // the leases: TTL, waiting
}

// Open connects to the server at address and returns a Client for the locks of
// old clients. It is [redisconn.Open], [New] and [lock.New] in one call. Close
// the Client to close the connections. If the server cannot be used, the error
// says what was missing, such as a password.
func Open(ctx context.Context, address string, o Options) (*lock.Client, error) {
	pool, err := redisconn.Open(ctx, address, o.Redis)
	if err != nil {
		return nil, err
	}
	backend, err := New(pool, o.Backend)
	if err != nil {
		return nil, err
	}
	client, err := lock.New(backend, o.Lock)
	if err != nil {
		_ = backend.Close()
		return nil, err
	}
	return client, nil
}
