// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// watched runs a watch of three seconds in a synctest bubble, during work.
func watched(t *testing.T, cfg Config, work func(w *redistest.World)) (result *Result, record string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		pool := w.Pool()
		var out bytes.Buffer
		cfg.For, cfg.Record, cfg.Clock = 3*time.Second, &out, w.Clock(redistest.Skew{})
		done := make(chan struct{})
		var err error
		go func() {
			defer close(done)
			result, err = Watch(t.Context(), pool, cfg)
		}()
		work(w)
		<-done
		if err != nil {
			t.Fatal(err)
		}
		record = out.String()
	})
	return result, record
}

func jedisStamp(now time.Time) string {
	text, err := dialect.Jedis().Stamp(now, time.Minute, "")
	if err != nil {
		panic(err)
	}
	return text
}

func TestPollsAloneFindHolds(t *testing.T) {
	r, _ := watched(t, Config{}, func(w *redistest.World) {
		w.Mini.Set("stock", jedisStamp(w.Now()))
		w.Mini.Set("other", "no stamp")
		w.Pass(1500 * time.Millisecond)
		w.Mini.Del("stock")
	})
	e := r.Evidence
	if e.Counts.Acquisitions != 1 || len(e.Keys) != 1 || e.Keys[0].Key != "stock" {
		t.Errorf("%+v, keys %+v", e.Counts, e.Keys)
	}
	if h := e.LongestHold.Value; h < 900*time.Millisecond || h > 1700*time.Millisecond {
		t.Errorf("held for %v", h)
	}
	if !e.Keys[0].NoTTL && e.Keys[0].LastWrite == nil {
		t.Errorf("key %+v", e.Keys[0])
	}
	for _, s := range []census.Source{census.SourceTracking, census.SourceStats} {
		if e.Covered(s).Missing == "" {
			t.Errorf("%s works on a server that has none: %+v", s, e.Covered(s))
		}
	}
	if r.Cost.Looks == 0 || r.Cost.Scans == 0 {
		t.Errorf("cost %+v", r.Cost)
	}
}

func TestReplayComesToTheSameResult(t *testing.T) {
	cfg := Config{}
	live, record := watched(t, cfg, func(w *redistest.World) {
		for range 4 {
			w.Mini.Set("stock", jedisStamp(w.Now()))
			w.Pass(400 * time.Millisecond)
			w.Mini.Del("stock")
			w.Pass(200 * time.Millisecond)
		}
	})
	again, err := Replay(strings.NewReader(record), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if live.Evidence.Counts.Acquisitions != 4 {
		t.Errorf("live %+v", live.Evidence.Counts)
	}
	if !reflect.DeepEqual(live.Evidence, again.Evidence) ||
		!reflect.DeepEqual(live.Findings, again.Findings) {
		t.Errorf("live\n%+v\nagain\n%+v", live.Evidence, again.Evidence)
	}
}

func TestHashedRecordCountsTheSameAndNamesNothing(t *testing.T) {
	cfg := Config{Hash: []byte("of the caller")}
	live, record := watched(t, cfg, func(w *redistest.World) {
		w.Mini.Set("stock", jedisStamp(w.Now()))
		w.Pass(time.Second)
		w.Mini.Set("stock", "a private text")
	})
	if strings.Contains(record, "stock") || strings.Contains(record, "private") {
		t.Errorf("record:\n%s", record)
	}
	again, err := Replay(strings.NewReader(record), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if live.Evidence.Counts != again.Evidence.Counts ||
		live.Evidence.Writers[0].Offset != again.Evidence.Writers[0].Offset {
		t.Errorf("live %+v, again %+v", live.Evidence.Counts, again.Evidence.Counts)
	}
}

func TestServerStepIsAHoleInEveryWindow(t *testing.T) {
	r, _ := watched(t, Config{}, func(w *redistest.World) {
		w.Pass(1200 * time.Millisecond)
		w.StepServer(700 * time.Millisecond)
	})
	e := r.Evidence
	if len(e.ServerSteps) != 1 || !strings.Contains(e.ServerSteps[0].Detail, "699") &&
		!strings.Contains(e.ServerSteps[0].Detail, "700") {
		t.Errorf("steps %+v", e.ServerSteps)
	}
	for _, s := range []census.Source{census.SourcePoll, census.SourceStats} {
		if c := e.Covered(s); c.Missing == "" && (len(c.Holes) != 1 || c.Holes[0].Reason != census.HoleStep) {
			t.Errorf("%s: %+v", s, c)
		}
	}
}

// fullDisk accepts left more bytes and then fails.
type fullDisk struct{ left int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.left {
		return 0, errFull
	}
	d.left -= len(p)
	return len(p), nil
}

func TestFullDiskEndsTheRecordAndNotTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		w.Mini.Set("stock", jedisStamp(w.Now()))
		r, err := Watch(t.Context(), w.Pool(),
			Config{For: time.Second, Record: &fullDisk{left: 300}, Clock: w.Clock(redistest.Skew{})})
		if !errors.Is(err, errFull) || r == nil || r.Evidence.Counts.Acquisitions != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestEndOfTheContextIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		seen := 0
		cfg := Config{SeenEvery: 200 * time.Millisecond, Seen: func(*Result) { seen++ },
			Clock: w.Clock(redistest.Skew{})}
		if _, err := Watch(ctx, w.Pool(), cfg); err != nil || seen < 2 {
			t.Errorf("%v, seen %d times", err, seen)
		}
	})
}

func TestLooksStayWithinTheirBudget(t *testing.T) {
	r, _ := watched(t, Config{Looks: 100}, func(w *redistest.World) {
		for i := range 50 {
			w.Mini.Set(strings.Repeat("k", i+1), jedisStamp(w.Now()))
		}
	})
	if n := r.Cost.Looks; n > 330 || n < 200 {
		t.Errorf("%d looks in three seconds, asked for at most 100 a second", n)
	}
}

func TestKeysThatStayFreeMakeRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		cfg := Config{Config: census.Config{MaxKeys: 3}, For: 40 * time.Second, Looks: 2000,
			Clock: w.Clock(redistest.Skew{})}
		done := make(chan *Result)
		go func() {
			r, err := Watch(t.Context(), w.Pool(), cfg)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		for i := range 5 {
			key := "lock:" + strings.Repeat("i", i+1)
			w.Mini.Set(key, jedisStamp(w.Now()))
			w.Pass(6 * time.Second)
			w.Mini.Del(key)
		}
		if r := <-done; r.Evidence.Counts.Acquisitions != 5 {
			t.Errorf("%+v", r.Evidence.Counts)
		}
	})
}

func TestImpossibleConfigNamesTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"For": {For: -1}, "Timeout": {Timeout: -1}, "Monitor.Every": {Monitor: MonitorConfig{Every: -1}},
		"Lease": {Config: census.Config{Lease: -1}},
	} {
		if _, err := Replay(nil, cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
