// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"fmt"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/redisconn"
)

// Options are the settings of [Open]. Zero is right for every field.
type Options struct {
	Redis   redisconn.Options // passwords, certificates, a dialer
	Backend Config            // the lock: fencing numbers, fairness
	Lock    lock.Config       // the leases: TTL, waiting
}

// Open connects to the server or cluster at address and returns a Client for
// its token locks. It is [redisconn.Open], [New] (or [NewCluster]) and
// [lock.New] in one call. Close the
// Client to close the connections. If the server cannot be used, the error says
// what was missing, such as a password.
func Open(ctx context.Context, address string, o Options) (*lock.Client, error) {
	backend, err := openStore(ctx, address, o)
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

func openStore(ctx context.Context, address string, o Options) (*Backend, error) {
	a, err := redisconn.Parse(address)
	var nodes redisconn.Nodes
	if err == nil {
		nodes, err = a.Nodes(o.Redis)
	}
	if err != nil || len(nodes.Seeds) == 0 {
		pool, err := redisconn.Open(ctx, address, o.Redis)
		if err != nil {
			return nil, err
		}
		return New(pool, o.Backend)
	}
	b, err := NewCluster(nodes, o.Backend)
	if err != nil {
		return nil, err
	}
	if _, err := b.engine.(*fleet).table.Primaries(ctx); err != nil {
		_ = b.Close()
		if advice := wire.Explain(err); advice != "" {
			err = fmt.Errorf("%w; %s", err, advice)
		}
		return nil, fmt.Errorf("modern: could not open %s: %w", a.Redacted(), err)
	}
	return b, nil
}
