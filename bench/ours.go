package main

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

var errNotOurs = errors.New("bench: the key no longer belongs to this adapter")

// Own returns the adapters of this module, the bare commands first.
func Own() []Adapter {
	return append([]Adapter{
		Baseline(), bareWithContexts(),
		{Name: "modern", Open: openModern(modern.Config{}, nil)},
		{Name: "modern, no hand-over", Open: openModern(modern.Config{}, func(c *lock.Config) {
			c.LocalHandOvers = -1
		})},
		{Name: "modern, shared", Open: openModern(modern.Config{}, func(c *lock.Config) {
			c.LocalHandOvers, c.HandOverFor = many, time.Hour
		})},
		{Name: "modern, fenced", Open: openModern(modern.Config{Fence: true}, nil)},
		{Name: "modern, fair", Open: openModern(modern.Config{Fair: true}, nil)},
		{Name: Hardened, Open: openLegacy(legacy.Hardened, lock.Config{})},
		{Name: Impolite, Open: openLegacy(legacy.Hardened, lock.Config{Politeness: -1})},
	}, legacyPairs()...)
}

// Names of the lock that old clients share: with its defaults, and without the
// gaps that it leaves to old clients. Only its user can know that those gaps
// are unnecessary.
const (
	Hardened = "legacy, hardened"
	Impolite = "legacy, hardened, impolite"
)

// many is no practical limit on hand-overs, to measure how fast they can be.
// The default is 64.
const many = 1 << 30

func openModern(cfg modern.Config, change func(*lock.Config)) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		b, err := modern.New(s.Pool(), cfg)
		if err != nil {
			return nil, err
		}
		times := lock.Config{TTL: s.TTL}
		if change != nil {
			change(&times)
		}
		return newOurs(b, times)
	}
}

func openLegacy(mode legacy.Mode, times lock.Config) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		b, err := legacy.New(s.Pool(), legacy.Config{Mode: mode})
		if err != nil {
			return nil, err
		}
		return newOurs(b, times)
	}
}

type ours struct{ *lock.Client }

func newOurs(b backend.Store, cfg lock.Config) (Locker, error) {
	c, err := lock.New(b, cfg)
	if err != nil {
		return nil, err
	}
	return ours{c}, nil
}

func (o ours) Lock(ctx context.Context, key string) (Held, error) {
	l, err := o.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (o ours) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return o.Client.Close(ctx)
}
