// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// cutSessionLeavesNothing cuts a backend off at a Try and at a Release, for
// three TTLs. Meanwhile another grant keeps the session alive, and with it both
// keys. After the cut the backend must give both back, although the Client has
// long stopped to ask for that.
func (k *kit) cutSessionLeavesNothing() {
	if !k.traits.Session {
		return
	}
	if k.Cut == nil {
		k.T.Fatal("locktest: Traits.Session needs World.Cut")
	}
	store := k.Backend()
	a, b := k.closing(store), k.backend()
	name := k.key
	k.key = name + ":kept"
	kept := k.take(a)
	k.key = name + ":released"
	released := k.take(a)
	heal := k.Cut(store)
	if err := k.briefly(released.Release); err == nil || errors.Is(err, backend.ErrLost) {
		k.Errorf("Release while its reply is lost: %v", err)
	}
	err := k.briefly(func(ctx context.Context) error {
		_, err := a.Try(ctx, name+":tried", k.TTL)
		return err
	})
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) {
		k.Fatalf("Try while its reply is lost: %v; it should be an UnsureError", err)
	}
	_ = k.briefly(unsure.Grant.Release)
	keepFor := func(d time.Duration) {
		for range 2 * d / k.TTL {
			k.Pass(k.TTL / 2)
			if _, err := kept.Extend(k.ctx(), k.TTL); err != nil {
				k.Fatalf("Extend of another grant of the session: %v", err)
			}
		}
	}
	keepFor(3 * k.TTL)
	for _, end := range []string{":released", ":tried"} {
		k.key = name + end
		k.mustBeHeld(b) // free: Session is declared, but the key freed itself
	}
	heal()
	keepFor(2 * k.TTL)
	for _, end := range []string{":released", ":tried"} {
		k.key = name + end
		k.free(k.take(b))
	}
	k.free(kept)
	k.key = name
}

// briefly runs a call that gets no reply.
func (k *kit) briefly(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx(), k.TTL/8)
	defer cancel()
	return call(ctx)
}
