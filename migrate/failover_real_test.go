// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
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

// lostVerb is a verb whose step the promoted server has not got.
type lostVerb struct {
	from, to migrate.Phase
	run      func(context.Context, *redis.Pool, fleet.Options) (*fleet.Report, error)
}

func TestAStepThatWasLostMovesNobodyBack(t *testing.T) {
	for name, v := range map[string]lostVerb{
		"init":             {migrate.NoPhase, migrate.Observe, fleet.Init},
		"advance":          {migrate.Dual, migrate.Sealed, fleet.Advance},
		"back":             {migrate.Sealed, migrate.Dual, fleet.Back},
		"clean":            {migrate.Modern, migrate.Clean, fleet.CleanUp},
		"init after clean": {migrate.Clean, migrate.Observe, fleet.Init},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); losesAStep(t, v) })
	}
}

func losesAStep(t *testing.T, v lostVerb) {
	pair := redistest.NewPair(t)
	pool := pair.Pool()
	defer pool.Close()
	o := fleet.Options{
		Claims: fleet.Claims{Lease: 6 * time.Second, Spread: 50 * time.Millisecond,
			Gap: 10 * time.Millisecond, Job: time.Second, Gone: true},
		Go: true, Wait: 20 * time.Second, Timeout: 5 * time.Second,
	}
	if v.from != migrate.NoPhase {
		pair.Primary.Do("HSET", "gsl:roster:", "nonce", "drawn")
		r := migrate.Record{Epoch: 5, Phase: v.from, Since: time.Now(), Dialect: "Jedis", Roster: "drawn"}
		pair.Primary.Do("SET", "gsl:phase:", r.String())
	}
	m := joins(t, pool)
	a := promoted(t, pair, m)
	if v.from == migrate.Sealed || v.from == migrate.Modern {
		pair.Primary.Do("SET", "stock", tombstone)
	}
	if err := m.Refresh(background); err != nil {
		t.Fatal(err)
	}
	pair.Primary.AwaitReplica()
	pair.CutOff()
	if r, err := v.run(background, pool, o); err != nil || !r.Moved || !r.Over {
		t.Fatalf("%v: %+v, %+v", err, r, r.Gate)
	}
	if err := m.Refresh(background); err != nil {
		t.Fatal(err)
	}
	held, err := lets(t, a, "held")
	if err != nil {
		t.Fatal(err)
	}
	pair.Promote()
	refreshes(t, m)
	acts(t, m, v.to)
	if v.from != migrate.NoPhase {
		besideWhoJoins(t, pair, pool, a, v)
	}
	if err := renewal(t, "held", held); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the lease that was lost: %v", err)
	}
	_ = held.Release(background)
	mendsTheRecord(t, pair, pool, m, o, v)
}

func joins(t *testing.T, pool *redis.Pool) *migrate.Member {
	t.Helper()
	m, err := migrate.Join(background, pool,
		migrate.MemberConfig{Every: 200 * time.Millisecond, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave() })
	return m
}

func refreshes(t *testing.T, m *migrate.Member) {
	t.Helper()
	_ = answered(t, "a heartbeat", func() error { return m.Refresh(background) })
}

func acts(t *testing.T, m *migrate.Member, want migrate.Phase) {
	t.Helper()
	var p migrate.Phase
	_ = answered(t, "its phase", func() (err error) { // an error: a busy machine was late with a heartbeat
		p, err = m.Phase(background)
		return err
	})
	if p != want {
		t.Errorf("acts by %v, not by %v", p, want)
	}
}

// besideWhoJoins lets a program join. It reads the old record, acts by the
// phase before, a step away from the others, and excludes them. Every gate is
// closed.
func besideWhoJoins(t *testing.T, pair *redistest.Pair, pool *redis.Pool, a *migrate.Bridge, v lostVerb) {
	t.Helper()
	late := joins(t, pool)
	b := promoted(t, pair, late)
	refreshes(t, late)
	acts(t, late, v.from)
	for holder, other := range map[*migrate.Bridge]*migrate.Bridge{a: b, b: a} {
		g, err := lets(t, holder, "both")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lets(t, other, "both"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("a step away from the holder: %v", err)
		}
		if err := g.Release(background); err != nil {
			t.Error(err)
		}
		pair.Replica.Do("DEL", "both") // the tombstone of who is in sealed, which observe takes for held
	}
	if err := late.Goodbye(background); err != nil {
		t.Error(err)
	}
	if r, err := fleet.Status(background, pool, fleet.Options{}); err != nil || r.Gate == nil ||
		!slices.ContainsFunc(r.Gate.Blocks, func(f fleet.Finding) bool { return f.Rule == "epoch" }) {
		t.Errorf("no gate says epoch: %+v (%v)", r, err)
	}
}

// mendsTheRecord does what docs/guide/migration.md says the operator does.
func mendsTheRecord(t *testing.T, pair *redistest.Pair, pool *redis.Pool, m *migrate.Member, o fleet.Options,
	v lostVerb) {
	t.Helper()
	pair.Replica.Do("DEL", "gsl:phase:")
	r, err := fleet.Init(background, pool, o)
	if err != nil || !r.Moved || r.Phase != v.to {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.Pending != migrate.NoPhase {
		refreshes(t, m)
		lossIsOver(t, pair, pool, o, v)
		if r, err = v.run(background, pool, o); err != nil || !r.Over {
			t.Fatalf("%v: %+v, %+v", err, r, r.Gate)
		}
	}
	refreshes(t, m)
	acts(t, m, v.to)
	keys, _ := redis.Strings(pair.Replica.Do("KEYS", "*"), nil)
	for _, key := range keys {
		if strings.HasPrefix(key, "gsl:") || v.to == migrate.Sealed {
			continue
		}
		if got, _ := redis.String(pair.Replica.Do("GET", key), nil); v.to != migrate.Clean ||
			got != tombstone {
			t.Errorf("%s is left behind: %q", key, got)
		}
	}
}

// lossIsOver lets the time go by in which members that the promoted server may
// have lost renew their leases. It is over a minute, so the test moves the
// instant from which it counts.
func lossIsOver(t *testing.T, pair *redistest.Pair, pool *redis.Pool, o fleet.Options, v lostVerb) {
	t.Helper()
	o.Wait = 0
	r, err := v.run(background, pool, o)
	if err != nil || r.Over || r.Gate == nil || len(r.Gate.Blocks) != 1 || r.Gate.Blocks[0].Rule != "lost" {
		t.Fatalf("not closed by the loss alone: %v: %+v, %+v", err, r, r.Gate)
	}
	text, err := redis.String(pair.Replica.Do("GET", "gsl:phase:"), nil)
	if err != nil {
		t.Fatal(err)
	}
	record, err := migrate.ParseRecord(text)
	if err != nil || record.Lost.Run == "" {
		t.Fatalf("%v in %q", err, text)
	}
	record.Lost.Server -= 2 * time.Minute
	record.Lost.Up -= 2 * time.Minute
	pair.Replica.Do("SET", "gsl:phase:", record.String())
}
