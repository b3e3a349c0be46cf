// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// A replica is promoted that has not received the last writes. Redis guarantees
// no more, and neither does getsetlock: the next renewal reports a lease lost
// by that, and no record moves a member that has seen a later one.

// promotedTTL is longer than the pauses of a busy machine.
const promotedTTL = 5 * time.Second

// promoted is a bridge on a pair of servers, by which to act in phase p.
func promoted(t *testing.T, pair *redistest.Pair, phases migrate.PhaseSource) *migrate.Bridge {
	t.Helper()
	pool := pair.Pool()
	b, err := migrate.New(pool, migrate.Config{
		Phases: phases, Timeout: 5 * time.Second,
		Terms: dialect.Terms{Lease: 6 * time.Second, Spread: 50 * time.Millisecond,
			Gap: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); pool.Close() })
	return b
}

func takes(t *testing.T, b *migrate.Bridge, key string) backend.Grant {
	t.Helper()
	g, err := b.Contract().Try(background, key, promotedTTL)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return g
}

// answered repeats what the end of a connection alone may have spoiled.
func answered(t *testing.T, what string, f func() error) error {
	t.Helper()
	var err error
	for end := time.Now().Add(redistest.Patience); time.Now().Before(end); {
		if err = f(); err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrHeld) {
			return err
		}
	}
	t.Fatalf("%s is never answered: %v", what, err)
	return err
}

func renewal(t *testing.T, key string, g backend.Grant) error {
	t.Helper()
	return answered(t, "the renewal of "+key, func() error {
		_, err := g.Extend(background, promotedTTL)
		return err
	})
}

// lets is whether b is let in, and what with.
func lets(t *testing.T, b *migrate.Bridge, key string) (g backend.Grant, err error) {
	t.Helper()
	err = answered(t, "an attempt at "+key, func() (err error) {
		g, err = b.Contract().Try(background, key, promotedTTL)
		return err
	})
	return g, err
}

func TestRenewalReportsALeaseLostByAFailOver(t *testing.T) {
	for _, p := range migrate.Phases() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			pair := redistest.NewPair(t)
			a, b := promoted(t, pair, migrate.Fixed(p)), promoted(t, pair, migrate.Fixed(p))
			renewed, released := takes(t, a, "renewed"), takes(t, a, "released")
			pair.Primary.AwaitReplica()
			pair.CutOff()

			acquired, beside := takes(t, a, "acquired"), takes(t, a, "beside")
			if err := renewal(t, "renewed", renewed); err != nil {
				t.Fatal(err)
			}
			if err := released.Release(background); err != nil {
				t.Fatal(err)
			}
			pair.Promote()

			// The server has lost this lease: another client gets the key, and
			// the holder learns of it.
			next, err := lets(t, b, "acquired")
			if err != nil {
				t.Errorf("no double grant to show: %v", err)
			}
			if err := renewal(t, "acquired", acquired); !errors.Is(err, lock.ErrLost) {
				t.Errorf("the holder whose lease was lost: %v", err)
			}
			if err := next.Release(background); err != nil {
				t.Error(err)
			}
			besideAnOldClient(t, pair, p, beside)

			// Only the renewal is lost: the lease is there, as long as it was
			// before.
			if _, err := lets(t, b, "renewed"); !errors.Is(err, lock.ErrHeld) &&
				renewal(t, "renewed", renewed) == nil {
				t.Errorf("two hold: %v", err)
			}
			for key, g := range map[string]backend.Grant{
				"acquired": acquired, "beside": beside, "renewed": renewed} {
				if err := answered(t, "the release of "+key,
					func() error { return g.Release(background) }); err != nil &&
					!errors.Is(err, lock.ErrLost) {
					t.Errorf("%s: %v", key, err)
				}
			}
			freesItself(t, pair, b, p)
		})
	}
}

// besideAnOldClient lets one take the key whose guard was lost.
func besideAnOldClient(t *testing.T, pair *redistest.Pair, p migrate.Phase, g backend.Grant) {
	t.Helper()
	stamp := fmt.Sprint(time.Now().Add(6 * time.Second).UnixMilli())
	if n := pair.Replica.Do("SETNX", "beside", stamp); n != int64(1) {
		t.Errorf("SETNX: %v", n)
	}
	if err := renewal(t, "beside", g); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the holder beside an old client: %v", err)
	}
	_ = g.Release(background)
	if v, err := redis.String(pair.Replica.Do("GET", "beside"), nil); v != stamp {
		t.Errorf("the old client's lock became %q (%v)", v, err)
	}
	pair.Replica.Do("DEL", "beside")
}

// freesItself waits for the end of what a lost release left, and looks for
// remains.
func freesItself(t *testing.T, pair *redistest.Pair, b *migrate.Bridge, p migrate.Phase) {
	t.Helper()
	for _, key := range []string{"released", "renewed"} {
		var g backend.Grant
		for err := error(lock.ErrHeld); errors.Is(err, lock.ErrHeld); {
			g, err = lets(t, b, key)
		}
		if err := g.Release(background); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	keys, err := redis.Strings(pair.Replica.Do("KEYS", "*"), nil)
	for _, key := range keys {
		if v, _ := redis.String(pair.Replica.Do("GET", key), nil); v != "" &&
			(p < migrate.Sealed || v != tombstone) {
			t.Errorf("%s is left behind: %q (%v)", key, v, err)
		}
	}
}

// TestAPrimaryWithoutItsReplicaTakesNoRenewal, where min-replicas-to-write says
// so. Otherwise a holder on a cut-off primary would go on alongside a holder on
// the new one.
func TestAPrimaryWithoutItsReplicaTakesNoRenewal(t *testing.T) {
	pair := redistest.NewPair(t)
	pair.Primary.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	b := promoted(t, pair, migrate.Fixed(migrate.Dual))
	g := takes(t, b, "k")
	pair.CutOff()
	for name, step := range map[string]func() error{
		"renewal": func() error { _, err := g.Extend(background, promotedTTL); return err },
		"acquisition": func() error {
			_, err := b.Contract().Try(background, "other", promotedTTL)
			return err
		},
		"release": func() error { return g.Release(background) },
	} {
		if err := step(); err == nil || errors.Is(err, lock.ErrLost) ||
			!strings.Contains(err.Error(), "NOREPLICAS") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
