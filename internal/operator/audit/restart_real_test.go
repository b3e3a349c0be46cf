//go:build real

package audit

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The watch uses polls and counters. An old client writes before the server
// restarts and once more afterwards.
func TestWatchSeesKeysAfterTheServerRestarts(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	pool := s.Pool(redis.DialDatabase(3))
	defer pool.Close()
	ctx, stop := context.WithTimeout(t.Context(), redistest.Patience/4)
	defer stop()
	run := ""
	restarted := func(r *Result) bool { return r.Evidence.Run != run }
	write := func(key string) {
		conn := s.Pool(redis.DialDatabase(3)).Get() // a connection from before the restart is dead
		defer conn.Close()
		if _, err := conn.Do("SETNX", key, stampOf(t, dialect.Jedis(), time.Now(), time.Minute)); err != nil {
			t.Error(err)
		}
	}
	var before time.Time
	step, seen := 0, false
	r, err := Watch(ctx, pool, Config{
		Config:    census.Config{Match: "lock:*", DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}},
		SeenEvery: 100 * time.Millisecond,
		Seen: func(r *Result) {
			last := r.Evidence.LastWrite
			switch {
			case step == 0:
				write("lock:42")
				step++
			case step == 1 && last != nil && r.Evidence.Run != "":
				before, run = last.At, r.Evidence.Run
				s.Restart()
				step++
			case step == 2 && restarted(r):
				write("lock:42")
				step++
			case step == 3 && last.At.After(before):
				seen = true
				stop()
			}
		},
	})
	if err != nil || !seen {
		t.Fatalf("after step %d the watch still says %+v (%v)", step, r.Evidence.LastWrite, err)
	}
	if p := r.Evidence.LongestPause; !p.Known() || p.Key != "lock:42" {
		t.Errorf("the pause around the restart is %+v", p)
	}
	if m := r.Evidence.Covered(census.SourceMonitor); m.Missing == "" || !m.From.IsZero() {
		t.Errorf("MONITOR was not turned on: %+v", m)
	}
}
