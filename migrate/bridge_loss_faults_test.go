// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// What the server itself loses, in every step: no other client can hold, or the
// lease's next renewal reports the loss. bridge_faults_test.go cuts connections
// and refuses commands; failover_real_test.go does a real fail-over.

// loss is what the server forgets. It is noted before the step, and happens
// when it is called.
type loss func(r *rig) (happen func())

var lossesOfServers = map[string]loss{
	"restarted empty": func(r *rig) func() { return func() { r.w.Restart(); r.wire.Cut() } },
	"promoted": func(r *rig) func() {
		promote := r.w.Replica()
		return func() { promote(); r.wire.Cut() }
	},
	"script cache flushed": func(r *rig) func() { return r.w.FlushScripts },
}

// lostStep is one step of a holder. The loss happens after the step, or in
// place of its reply. It returns the grant that is then believed to hold; nil
// without one.
type lostStep func(r *rig, b *migrate.Bridge, lose loss, unheard bool) backend.Grant

var lostSteps = map[string]lostStep{
	"acquire": func(r *rig, b *migrate.Bridge, lose loss, unheard bool) (g backend.Grant) {
		err := r.losing(lose, unheard, func() (err error) {
			g, err = b.Contract().Try(background, "k", ttl)
			return err
		})
		return r.believed(g, err)
	},
	"take over": func(r *rig, b *migrate.Bridge, lose loss, _ bool) backend.Grant {
		r.set("k", r.stamp(-time.Minute))
		g, err := r.during(b, background, lose(r))
		if g = r.believed(g, err); g != nil && r.get(keyM) == "" {
			r.Error("what was lost while it settled is a lease")
		}
		return g
	},
	"renew": func(r *rig, b *migrate.Bridge, lose loss, unheard bool) backend.Grant {
		g := r.take(b)
		r.w.Pass(ttl / 2)
		err := r.losing(lose, unheard, func() error { _, err := g.Extend(background, ttl); return err })
		if errors.Is(err, lock.ErrLost) {
			return nil
		}
		return g
	},
	"renew, and the time that was lost passes": func(r *rig, b *migrate.Bridge, lose loss,
		unheard bool) backend.Grant {
		g := r.take(b)
		r.w.Pass(ttl / 2)
		_ = r.losing(lose, unheard, func() error { _, err := g.Extend(background, ttl); return err })
		r.w.Pass(ttl * 3 / 4)
		return g
	},
	"release": func(r *rig, b *migrate.Bridge, lose loss, unheard bool) backend.Grant {
		g := r.take(b)
		err := r.losing(lose, unheard, func() error { return g.Release(background) })
		if err != nil {
			_ = g.Release(background) // as a Client does
		}
		return nil
	},
}

// losing runs a step and lets the loss happen after it, or before its reply,
// which never comes.
func (r *rig) losing(lose loss, unheard bool, step func() error) error {
	r.w.ServerNow()
	happen := lose(r)
	if !unheard {
		err := step()
		happen()
		return err
	}
	gate := redistest.NewGate()
	r.wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldReply(gate)})
	done := make(chan struct{})
	go func() {
		select {
		case <-gate.Reached():
			happen()
			r.wire.Cut()
			gate.Open()
		case <-done:
		}
	}()
	err := step()
	close(done)
	r.wire.Calm()
	return err
}

// believed is the grant, unless the attempt failed; what is not known is
// undone, as a Client does.
func (r *rig) believed(g backend.Grant, err error) backend.Grant {
	r.Helper()
	var unsure *backend.UnsureError
	if errors.As(err, &unsure) {
		r.undo(unsure.Grant)
	}
	if err != nil {
		return nil
	}
	return g
}

func TestHolderLearnsWhatTheServerLost(t *testing.T) {
	for name, lose := range lossesOfServers {
		for what, step := range lostSteps {
			for _, unheard := range []bool{false, true} {
				for _, old := range []bool{false, true} {
					if what == "take over" && unheard {
						continue // it looks again, however its reply came
					}
					t.Run(fmt.Sprintf("%s/%s/unheard %v/old client %v", name, what, unheard, old),
						func(t *testing.T) {
							t.Parallel()
							each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
								if what == "take over" && p == migrate.Clean {
									return // takes nothing over
								}
								b := r.bridge(p)
								r.warm(b)
								if p >= migrate.Sealed {
									r.entomb()
								}
								g := step(r, b, lose, unheard)
								r.nobodyBeside(p, g, old)
								r.nothingLeft(p)
							})
						})
				}
			}
		}
	}
}

// nobodyBeside lets another client try for the key. If that client gets it, the
// holder's next renewal reports the loss, and no act of the holder harms that
// client.
func (r *rig) nobodyBeside(p migrate.Phase, g backend.Grant, old bool) {
	r.Helper()
	other, lease := backend.Store(r.bridge(p)), ttl
	if old {
		other, lease = r.oldClient(), dialect.Jedis().Lease
	}
	next, taken := other.Contract().Try(background, "k", lease)
	if g == nil {
		if taken == nil {
			r.release(next)
		}
		return
	}
	_, err := g.Extend(background, ttl)
	if err != nil && !errors.Is(err, lock.ErrLost) {
		_, err = g.Extend(background, ttl) // on a new connection
	}
	kept := old && p == migrate.Clean // keeps no old client out, and does not know of that client
	switch {
	case taken == nil && err == nil && !kept:
		r.Error("another was let in, and the renewal does not tell")
	case taken != nil && err != nil && !errors.Is(err, lock.ErrLost):
		r.Errorf("nobody was let in, and the renewal says %v", err)
	}
	l, m := r.get("k"), r.get(keyM)
	_ = g.Release(background)
	if taken != nil {
		return
	}
	if old && r.get("k") != l || !old && (r.get(keyM) != m || r.get("k") != l) {
		r.Errorf("the next holder's keys %q and %q became %q and %q", l, m, r.get("k"), r.get(keyM))
	}
	r.release(next)
}

func (r *rig) oldClient() backend.Store {
	r.Helper()
	old, err := legacy.New(r.w.Pool(),
		legacy.Config{Mode: legacy.Verbatim, Clock: r.w.Clock(redistest.Skew{})})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { old.Close() })
	return old
}

// nothingLeft waits for what a lost release left to its TTL; a tombstone may
// stay from sealed on.
func (r *rig) nothingLeft(p migrate.Phase) {
	r.Helper()
	r.w.Pass(2 * lease)
	l, m := r.get("k"), r.get(keyM)
	if m != "" || l != "" && (p < migrate.Sealed || l != tombstone) {
		r.Errorf("left behind: L %q, M %q", l, m)
	}
}

// undo releases until the answer is certain, or the TTL has passed, as a Client
// does.
func (r *rig) undo(g backend.Grant) {
	r.Helper()
	r.wire.Calm()
	for passed := time.Duration(0); passed <= ttl && g.Release(background) != nil; passed += time.Second {
		r.w.Pass(time.Second)
	}
	if m := r.get(keyM); m != "" {
		r.Errorf("M is left: %q", m)
	}
}
