//go:build real

package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy/dialect"
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

// TestWindowStaysShutInEachDatabaseAndSpelling watches a namespace by MONITOR,
// on servers whose pool selects database 3 and does not say so. An old client
// that spells its keys as a serializer does tries at each sighting. Then it
// stops, and one of the same name goes on in database 0: the window grows.
func TestWindowStaysShutInEachDatabaseAndSpelling(t *testing.T) {
	for _, e := range []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON} {
		t.Run(string(e), func(t *testing.T) {
			s := redistest.Real(t, redistest.Options{Unix: e == dialect.JSON})
			d := dialect.Template()
			d.Name, d.KeyEncoding, d.ValueEncoding = "Spring", e, e
			watched, zero := s.Pool(redis.DialDatabase(3)), s.Pool()
			old, other := newOldTries(t, watched, d), newOldTries(t, zero, d)
			old.again()
			ctx, stop := context.WithTimeout(bg, redistest.Patience)
			defer stop()
			const attempts = 20
			var tried []time.Time
			grew := false
			err := WatchClients(ctx, watched, ObserverConfig{
				Namespace: "lock", Dialect: d, Monitor: true, Every: 50 * time.Millisecond,
				Seen: func(seen Sighting, _ *audit.Result) {
					if len(tried) < attempts || seen.LastFailed == nil ||
						seen.LastFailed.At.Before(tried[attempts-1]) {
						tried = append(tried, old.again())
						if f := seen.LastFailed; f != nil && seen.Quiet[WatchMonitor] > seen.Until.Sub(f.At) {
							t.Errorf("quiet for %v, and it tried %v ago", seen.Quiet[WatchMonitor],
								seen.Until.Sub(f.At))
						}
						return
					}
					other.again()
					if grew = seen.Quiet[WatchMonitor] > time.Second; grew {
						if seen.Quiet[WatchStats] > time.Second {
							t.Errorf("the counters prove %v, and a client tries in database 0",
								seen.Quiet[WatchStats])
						}
						if seen.LastFailed.Key != old.key || len(seen.Keys) != 1 {
							t.Errorf("seen on %q, keys %+v", seen.LastFailed.Key, seen.Keys)
						}
						stop()
					}
				},
			})
			if err != nil || !grew {
				t.Errorf("after %d attempts the window has not grown (%v)", len(tried), err)
			}
		})
	}
}

// TestCountersSeeAttemptsInEveryDatabase: the server counts calls in all
// databases together, so a watch by counters is held up by attempts in any of
// them.
func TestCountersSeeAttemptsInEveryDatabase(t *testing.T) {
	for _, database := range []int{0, 3} {
		s := redistest.Real(t, redistest.Options{})
		old := newOldTries(t, s.Pool(redis.DialDatabase(database)), dialect.Jedis())
		ctx, stop := context.WithTimeout(bg, redistest.Patience)
		defer stop()
		quiet, cut := false, false
		err := WatchClients(ctx, s.Pool(redis.DialDatabase(3)), ObserverConfig{
			Namespace: "lock", Dialect: dialect.Jedis(), Every: 50 * time.Millisecond,
			Seen: func(seen Sighting, _ *audit.Result) {
				switch q := seen.Quiet[WatchStats]; {
				case !quiet:
					if quiet = q > 2*time.Second; quiet {
						old.again()
					}
				case q < time.Second:
					cut = true
					stop()
				}
			},
		})
		if err != nil || !cut {
			t.Errorf("database %d: quiet before %v, cut %v (%v)", database, quiet, cut, err)
		}
	}
}
