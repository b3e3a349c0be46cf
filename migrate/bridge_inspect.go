// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Describe is Inspect for [lock.Client.Inspect]. Its Detail is a
// [legacy.Observation]. A tombstone alone is no holder.
func (b *bridgeEngine) Describe(ctx context.Context, key string) (backend.Info, error) {
	p, err := b.cfg.Phases.Phase(ctx)
	if err != nil {
		return backend.Info{}, err
	}
	o, err := b.Observe(ctx, key)
	if err != nil {
		return backend.Info{}, err
	}
	info := backend.Info{Key: key, Detail: o}
	switch {
	case o.MarkExists:
		info.Value, info.Held = o.MarkValue, b.Held(key, o)
	case p != Clean && o.Exists && o.Value != b.Tombstone():
		info.Value, info.Held = o.Value, b.Held(key, o)
	}
	return info, nil
}

// ForceRelease releases a getsetlock client's lock as its holder would, if M
// still has exactly value: a tombstone stays, or is left. If value is what an
// old client wrote, it deletes that from L.
func (b *bridgeEngine) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	p, err := b.cfg.Phases.Phase(ctx)
	if err != nil {
		return false, err
	}
	return b.Free(ctx, key, value, p.strategy())
}

// Describe looks at both sides. Held is the target's, or the bridge's where the
// target is free. Detail is that of the side that Held is of.
func (c *composedEngine) Describe(ctx context.Context, key string) (backend.Info, error) {
	p, target, err := c.inspected(ctx)
	if err != nil {
		return backend.Info{}, err
	}
	there, err := target.Describe(ctx, key)
	if err != nil || p == Clean {
		return there, err
	}
	here, err := c.bridge.Describe(ctx, key)
	if err != nil {
		return backend.Info{}, err
	}
	info := there
	if there.Held == nil {
		info = here
	}
	if info.Held != nil {
		info.Value = fmt.Sprintf("%d %s%s", len(here.Value), here.Value, there.Value)
	}
	return info, nil
}

// ForceRelease frees both sides, in the order of a release. Each is freed only
// if it is as Describe found it.
func (c *composedEngine) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	p, target, err := c.inspected(ctx)
	if err != nil {
		return false, err
	}
	if p == Clean {
		return target.ForceRelease(ctx, key, value)
	}
	var n int
	if _, err := fmt.Sscanf(value, "%d ", &n); err != nil {
		return false, nil // no key had such a value
	}
	_, values, _ := strings.Cut(value, " ")
	if n < 0 || n > len(values) {
		return false, nil
	}
	var freed [2]bool
	if here := values[:n]; here != "" {
		if freed[0], err = c.bridge.ForceRelease(ctx, key, here); err != nil {
			return false, err
		}
	}
	if there := values[n:]; there != "" {
		freed[1], err = target.ForceRelease(ctx, key, there)
	}
	return freed[0] || freed[1], err
}

func (c *composedEngine) inspected(ctx context.Context) (Phase, backend.Inspector, error) {
	target, ok := c.target.(backend.Inspector)
	if !ok {
		return NoPhase, nil, fmt.Errorf("migrate: the target, a %T, is no Inspector: %w", c.target,
			errors.ErrUnsupported)
	}
	p, err := c.bridge.cfg.Phases.Phase(ctx)
	return p, target, err
}
