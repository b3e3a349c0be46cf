// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Info describes what is stored on a key. Package lock/backend documents its
// fields.
type Info = backend.Info

// Inspect looks at a key and takes nothing. The key may be held by any client.
// The answer describes the past: the key may have changed since.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	b, err := c.inspector()
	if err != nil {
		return Info{}, err
	}
	info, err := b.Describe(c.core.call(ctx), key)
	if err != nil {
		return Info{}, fmt.Errorf("lock: %w", err)
	}
	return info, nil
}

// ForceRelease deletes the key if what is stored there is exactly value, which
// [Client.Inspect] returns, also if a client holds it. It reports whether it
// deleted. It asks no holder: a holder that is still at work then works without
// the lock. If the holder is a getsetlock client, its lease ends at once where
// the server reports changes, else at its next renewal.
func (c *Client) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	b, err := c.inspector()
	if err != nil {
		return false, err
	}
	deleted, err := b.ForceRelease(c.core.call(ctx), key, value)
	if err != nil {
		return false, fmt.Errorf("lock: %w", err)
	}
	return deleted, nil
}

func (c *Client) inspector() (backend.Inspector, error) {
	b, ok := c.core.backend.(backend.Inspector)
	if !ok {
		return nil, fmt.Errorf("lock: the backend, a %T, is no Inspector: %w", c.core.backend,
			errors.ErrUnsupported)
	}
	return b, nil
}
