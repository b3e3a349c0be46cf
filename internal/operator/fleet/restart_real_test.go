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

// restarted is a watcher in database 3 whose server is started again, and one
// old client.
type restarted struct {
	t    *testing.T
	s    *redistest.Server
	pool *redis.Pool

	last   time.Time     // of the old client's last write before the restart
	paused time.Duration // longest pause seen before the restart
}

// record writes a record of this phase that begins now.
func (w *restarted) record(p migrate.Phase) {
	w.t.Helper()
	conn := w.s.Pool(redis.DialDatabase(3)).Get() // the watch's own connections may be dead
	defer conn.Close()
	r := migrate.Record{Epoch: 5, Phase: p, Since: time.Now(), Dialect: "Jedis", Roster: "nonce"}
	if _, err := conn.Do("SET", record.Key("lock"), r.String()); err != nil {
		w.t.Error(err)
	}
}

// write lets the old client win the lock on a new connection.
func (w *restarted) write() {
	w.t.Helper()
	conn := w.s.Pool(redis.DialDatabase(3)).Get()
	defer conn.Close()
	stamp, err := dialect.Jedis().Stamp(time.Now(), time.Minute, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range []redis.Args{{"DEL", "lock:stock"}, {"SETNX", "lock:stock", stamp}} {
		if _, err := conn.Do(c[0].(string), c[1:]...); err != nil {
			w.t.Error(err)
		}
	}
}

// shut fails unless the gate to clean names this pause and waits for this long
// after the last write.
func (w *restarted) shut(s Sighting) {
	w.t.Helper()
	r, err := CleanUp(bg, w.pool, Options{
		Namespace: "lock", Claims: Claims{
			Lease: time.Second, Greatest: time.Second, Job: time.Second, Spread: time.Millisecond,
			Gap: time.Millisecond, Idle: 2 * time.Second}})
	if err != nil {
		w.t.Fatal(err)
	}
	text := fmt.Sprint(r.Gate.Evidence, r.Gate.Blocks)
	if !strings.Contains(text, fmt.Sprint("is contradicted: ", s.Pause.Time,
		" passed between two attempts")) {
		w.t.Errorf("the pause of %v refutes no claim of 2s: %s", s.Pause.Time, text)
	}
	if !slices.ContainsFunc(r.Gate.Blocks,
		func(b Finding) bool { return b.Rule == "old-clients" || b.Rule == "window" }) {
		w.t.Errorf("nothing keeps the gate shut after an act at %v: %s", w.last, text)
	}
}

func TestWatcherRemembersAcrossAServersRestart(t *testing.T) {
	for _, persist := range []bool{false, true} {
		for _, monitor := range []bool{false, true} {
			for _, soon := range []bool{false, true} {
				t.Run(fmt.Sprintf("persist %v monitor %v soon %v", persist, monitor, soon),
					func(t *testing.T) {
						t.Parallel()
						s := redistest.Real(t, redistest.Options{Persist: persist})
						w := &restarted{t: t, s: s, pool: s.Pool(redis.DialDatabase(3))}
						w.record(migrate.Modern)
						w.run(monitor, soon)
					})
			}
		}
	}
}

func (w *restarted) run(monitor, soon bool) {
	ctx, stop := context.WithTimeout(bg, redistest.Patience/4)
	defer stop()
	const pause = 3 * time.Second
	step := 0
	var run string
	err := WatchClients(ctx, w.pool, ObserverConfig{
		Namespace: "lock", Name: "watch", Monitor: monitor, Every: 100 * time.Millisecond,
		Seen: func(s Sighting, r *audit.Result) {
			last := later(s.LastWrite, s.LastFailed)
			switch {
			case step == 0 && (s.Quiet > 0 || !monitor && s.Counts):
				w.write()
				step++
			case step == 1 && last != nil && s.Until.Sub(last.At) > pause:
				w.write()
				step++
			case step == 2 && s.Pause.Time >= pause:
				w.last, w.paused, run = last.At, s.Pause.Time, r.Evidence.Run
				w.s.Restart()
				w.record(migrate.Modern)
				if soon {
					w.write()
				}
				step++
			case step == 3 && r.Evidence.Run != run && (!soon || last.At.After(w.last)):
				if last == nil || last.At.Before(w.last) || len(s.Keys) != 1 || s.Pause.Time < w.paused {
					w.t.Errorf("what was seen at %v is forgotten: %+v", w.last, s)
				}
				w.shut(s)
				w.record(migrate.Clean)
				w.write()
				step++
			case step == 4 && s.Alarm != nil:
				step++
				stop()
			}
		},
	})
	if err != nil || step != 5 {
		w.t.Errorf("the watch came to step %d: %v", step, err)
	}
}
