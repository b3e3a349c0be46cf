// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// oldTries is an old client that makes one attempt on a held lock for each call
// of again.
type oldTries struct {
	t    *testing.T
	conn redis.Conn
	d    dialect.Dialect
	key  string
}

func newOldTries(t *testing.T, pool *redis.Pool, d dialect.Dialect) *oldTries {
	t.Helper()
	key, err := d.EncodeKey("lock:stock")
	if err != nil {
		t.Fatal(err)
	}
	o := &oldTries{t, pool.Get(), d, key}
	t.Cleanup(func() { _ = o.conn.Close() })
	return o
}

// again tries once more, and returns the server's time before that.
func (o *oldTries) again() time.Time {
	o.t.Helper()
	now, err := redis.Int64s(o.conn.Do("TIME"))
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := o.d.Stamp(time.Now(), time.Minute, "")
	if err != nil {
		o.t.Fatal(err)
	}
	value, err := o.d.EncodeValue(text)
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.conn.Do("SETNX", o.key, value); err != nil {
		o.t.Fatal(err)
	}
	return time.Unix(now[0], now[1]*1000).UTC()
}

// TestOtherCommandsForTheLockKeepTheGatesShut: old clients with the jar's bytes
// take the lock by SET NX or SET GET, which move no counter of SETNX. By
// MONITOR each attempt ends the window. Without it no gate opens, whatever the
// counters say, and the gate says that they saw nothing of a value that came.
func TestOtherCommandsForTheLockKeepTheGatesShut(t *testing.T) {
	for _, c := range []struct {
		option  string
		monitor bool
	}{{"NX", true}, {"GET", true}, {"NX", false}, {"GET", false}} {
		t.Run(fmt.Sprint(c.option, " monitor ", c.monitor), func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Options{})
			pool := s.Pool(redis.DialDatabase(3))
			conn := pool.Get()
			defer conn.Close()
			try := func() time.Time {
				now, err := redis.Int64s(conn.Do("TIME"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Do("SET", "lock:stock", time.Now().Add(time.Minute).UnixMilli()+1,
					c.option); err != nil {
					t.Fatal(err)
				}
				return time.Unix(now[0], now[1]*1000)
			}
			shut := func() string { return shutFor(t, pool, conn) }
			tried := try()
			ctx, stop := context.WithTimeout(bg, redistest.Patience)
			defer stop()
			looks := 0
			err := WatchClients(ctx, pool, ObserverConfig{Namespace: "lock", Dialect: dialect.Jedis(),
				Monitor: c.monitor, Every: 100 * time.Millisecond,
				Seen: func(seen Sighting, _ *audit.Result) {
					if c.monitor && seen.Quiet > 0 && tried.After(seen.QuietUntil.Add(-seen.Quiet)) &&
						tried.Before(seen.QuietUntil.Add(-100*time.Millisecond)) {
						t.Errorf("quiet for %v until %v, and it tried at %v", seen.Quiet, seen.QuietUntil,
							tried)
					}
					text := shut()
					if !c.monitor && !strings.Contains(text, "status --watch --monitor") {
						t.Errorf("it does not say what to do: %s", text)
					}
					tried = try()
					// Every third look comes after a marker.
					if looks++; looks >= 60 {
						stop()
					}
				}})
			if err != nil || looks < 60 {
				t.Errorf("%d looks, %v", looks, err)
			}
		})
	}
}

// shutFor asks the gate to sealed and the gate to clean, in phases that began
// long ago. It fails if one opens, and returns what they say.
func shutFor(t *testing.T, pool *redis.Pool, conn redis.Conn) (text string) {
	t.Helper()
	claims := Claims{Lease: 100 * time.Millisecond, Greatest: 100 * time.Millisecond,
		Job: 100 * time.Millisecond, Spread: time.Millisecond, Gap: time.Millisecond,
		Behind: time.Second, Ahead: time.Second,
		Idle: 3 * time.Second} // a busy machine stands still for less
	for phase, verb := range map[migrate.Phase]func(context.Context, *redis.Pool,
		Options) (*Report, error){
		migrate.Dual: Advance, migrate.Modern: CleanUp,
	} {
		written := migrate.Record{
			Epoch: 5, Phase: phase, Since: time.Now().Add(-time.Hour), Dialect: "Jedis",
			Roster: "nonce"}
		if _, err := conn.Do("SET", record.Key("lock"), written.String()); err != nil {
			t.Fatal(err)
		}
		r, err := verb(bg, pool,
			Options{Namespace: "lock", Dialect: dialect.Jedis(), Claims: claims})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Gate.Blocks,
			func(b Finding) bool { return b.Rule == "window" || b.Rule == "old-clients" }) {
			t.Errorf("%v: the gate opens: %v %v", phase, r.Gate.Blocks, r.Gate.Evidence)
		}
		text += fmt.Sprint(r.Gate.Blocks, r.Gate.Evidence)
	}
	return text
}
