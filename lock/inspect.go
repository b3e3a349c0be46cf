package lock

import (
	"context"
	"errors"
	"fmt"
)

// Inspector is implemented by a Backend that can look at a key, and free it by
// force. See [Client.Inspect] and [Client.ForceRelease], which call it.
type Inspector interface {
	Describe(ctx context.Context, key string) (Info, error)
	ForceRelease(ctx context.Context, key, value string) (bool, error)
}

// Info describes what is stored on a key.
type Info struct {
	Key string

	// Held is the error of an attempt that would find the key like this: a
	// [*HeldError] that names the holder, or an error that names another type
	// of value. Nil: the key is free.
	Held error

	// Value is what [Client.ForceRelease] compares with the key.
	Value string

	// Detail is the Backend's own description: a modern.Info or a
	// legacy.Observation.
	Detail any
}

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

func (c *Client) inspector() (Inspector, error) {
	b, ok := c.core.backend.(Inspector)
	if !ok {
		return nil, fmt.Errorf("lock: the backend, a %T, is no Inspector: %w", c.core.backend,
			errors.ErrUnsupported)
	}
	return b, nil
}
