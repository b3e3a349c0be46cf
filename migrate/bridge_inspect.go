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
	k, err := b.keys(key)
	if err != nil {
		return backend.Info{}, err
	}
	o, err := b.Inspect(ctx, key)
	if err != nil {
		return backend.Info{}, err
	}
	info := backend.Info{Key: key, Detail: o}
	switch {
	case o.MarkExists:
		info.Value, info.Held = o.MarkValue, b.held(k, o)
	case p != Clean && o.Exists && o.Value != b.tomb:
		info.Value, info.Held = o.Value, b.held(k, o)
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
	k, err := b.keys(key)
	if err != nil {
		return false, err
	}
	token, rest, _ := strings.Cut(value, " ")
	switch {
	case value == "":
		return false, fmt.Errorf("migrate: key %q: the value to compare with is empty", key)
	case value == b.tomb:
		return false, fmt.Errorf(
			"migrate: key %q: its tombstone keeps old clients out, and no client holds it; getsetlock migrate deletes tombstones when the phase allows it",
			key)
	case len(token) != tokenLength:
		deleted, err := b.old.CompareAndDelete(ctx, key, value)
		return deleted.Any(), err
	}
	on, _, _ := strings.Cut(rest, " ")
	args := []any{k.argL, k.argM, value, on, b.tomb}
	if p >= Sealed && on != "" && on != b.tomb {
		args = append(args, b.tomb, argTombPX)
	}
	reply, err := b.mux.Eval(ctx, releaseScript, args...)
	if err != nil {
		return false, bridgeTrouble(k, "free", err)
	}
	f, _ := reply.([]any)
	switch {
	case reply == any(int64(1)):
		return true, nil
	case len(f) != 2:
		return false, bridgeTrouble(k, "free", errOddReply)
	}
	return integer(f[0]) == 2, nil // M was deleted; L was another client's
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
