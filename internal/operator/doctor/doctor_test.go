// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
)

func examined(t *testing.T, w *redistest.World, cfg Config) []Complaint {
	t.Helper()
	cfg.Hurry = true
	pool := w.Pool()
	defer pool.Close()
	got, err := Examine(t.Context(), pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var keys []Complaint
	for _, c := range got.Complaints {
		if c.Key != "" {
			keys = append(keys, c)
		}
	}
	return keys
}

// complaintsOf lists each complaint's key, kind and fix.
func complaintsOf(all []Complaint) string {
	var out []string
	for _, c := range all {
		fix := ""
		if c.Fix != nil {
			fix = " fix " + string(c.Fix.Do)
		}
		out = append(out, c.Key+": "+c.Kind+fix)
	}
	return strings.Join(out, "\n")
}

// Dead: past by more than the spread; stolen soon: ends within the spread; far:
// further ahead than a lease explains.
func TestDoctorSortsLocksByTheirStamps(t *testing.T) {
	w := redistest.New(t)
	now, d := w.ServerNow(), dialect.Jedis()
	set := func(key string, left time.Duration) {
		w.Mini.Set(key, fmt.Sprint(now.Add(left).UnixMilli()))
	}
	set("lock:dead", -10*time.Second)
	set("lock:just-ended", -900*time.Millisecond)
	set("lock:soon", 900*time.Millisecond)
	set("lock:live", 50*time.Second)
	set("lock:far", 200*time.Second)
	set("lock:freed-by-the-server", -10*time.Second)
	w.Mini.SetTTL("lock:freed-by-the-server", time.Minute)
	set("lock:ours", -10*time.Second)
	w.Mini.Set("{lock:ours}:gsl", "AAECAwQFBgcICQoLDA0ODw 1")
	w.Mini.Set("lock:text", "no lock's value")
	w.Mini.Set("lock:const", "busy")
	w.Mini.Set("lock:big", strings.Repeat("1", 5000))
	w.Mini.HSet("lock:hash", "a", "b")
	got := complaintsOf(examined(t, w,
		Config{Match: "lock:*", Dialects: []dialect.Dialect{d}, Lease: time.Minute, Spread: time.Second,
			Behind: time.Second, Ahead: dialect.Zero}))
	want := `lock:big: large
lock:const: no_ttl
lock:dead: dead fix delete
lock:far: far fix shorten
lock:hash: type
lock:soon: stolen_soon
lock:text: unreadable`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Without a pattern only stamps are judged, and no fix is offered.
	got = complaintsOf(examined(t, w,
		Config{Dialects: []dialect.Dialect{d}, Spread: time.Second, Behind: time.Second}))
	if got != "lock:dead: dead\nlock:far: far\nlock:soon: stolen_soon" {
		t.Errorf("without a pattern:\n%s", got)
	}
}

func TestDoctorKnowsAGhostFromTheWatch(t *testing.T) {
	w := redistest.New(t)
	value := stampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute)
	w.Mini.Set("lock:a", value)
	seen := func(value string) *census.Evidence {
		return &census.Evidence{Keys: []census.KeyEvidence{
			{Key: "lock:a", Timeline: []census.Act{
				{What: census.ActReleased}, {What: census.ActGhost, Value: value}}}}}
	}
	cfg := Config{Match: "lock:*", Evidence: seen(value)}
	// Its stamp is not past, so a client of an unknown dialect may hold the
	// lock by it.
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: ghost" {
		t.Errorf("%s", got)
	}
	cfg.Evidence = seen("another")
	if got := complaintsOf(examined(t, w, cfg)); got != "" {
		t.Errorf("%s", got)
	}
}

func fixesOf(all []Complaint) []Fix {
	var out []Fix
	for _, c := range all {
		if c.Fix != nil {
			out = append(out, *c.Fix)
		}
	}
	return out
}

func applied(t *testing.T, w *redistest.World, fixes []Fix) string {
	t.Helper()
	pool := w.Pool()
	defer pool.Close()
	var out []string
	err := Apply(t.Context(), pool, fixes,
		func(f Fix, o FixOutcome) { out = append(out, fmt.Sprintf("%s %s", f.Key, o)) })
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func TestFixLeavesAKeyThatHasChanged(t *testing.T) {
	w := redistest.New(t)
	past := fmt.Sprint(w.ServerNow().Add(-time.Minute).UnixMilli())
	for _, key := range []string{"lock:a", "lock:b", "lock:c", "lock:d"} {
		w.Mini.Set(key, past)
	}
	cfg := Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}, Behind: time.Second}
	fixes := fixesOf(examined(t, w, cfg))
	if len(fixes) != 4 {
		t.Fatalf("%v", fixes)
	}
	taken := stampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute)
	w.Mini.Set("lock:b", taken)
	w.Mini.Set("{lock:c}:gsl", "AAECAwQFBgcICQoLDA0ODw 1")
	w.Mini.Del("lock:d")
	if got := applied(t, w, fixes); got != "lock:a done, lock:b changed, lock:c ours, lock:d changed" {
		t.Errorf("%s", got)
	}
	if w.Mini.Exists("lock:a") || !w.Mini.Exists("lock:c") {
		t.Error("lock:a is still there, or lock:c is gone")
	}
	w.Mini.CheckGet(t, "lock:b", taken)
}

// The holder of a lock whose stamp is far ahead may be alive: it keeps a whole
// lease and its identity.
func TestFarStampIsMovedToOneLeaseFromNow(t *testing.T) {
	w := redistest.New(t)
	d := dialect.JedisUUID()
	far := stampOf(t, d, w.ServerNow().AddDate(0, 0, 40), time.Minute)
	w.Mini.Set("lock:a", far)
	fixes := fixesOf(
		examined(t, w, Config{
			Match: "lock:*", Dialects: []dialect.Dialect{d}, Lease: time.Minute, Ahead: dialect.Zero}))
	if len(fixes) != 1 || !strings.Contains(fixes[0].String(), "end in 1m0s if it still holds") {
		t.Fatalf("%v", fixes)
	}
	w.Pass(5 * time.Second)
	if got := applied(t, w, fixes); got != "lock:a done" {
		t.Fatalf("%s", got)
	}
	value, _ := w.Mini.Get("lock:a")
	s, err := d.Decode(value, w.ServerNow())
	if err != nil || s.ID != far[:36] ||
		s.Expiry.Sub(w.ServerNow()).Round(10*time.Millisecond) != time.Minute || w.Mini.TTL("lock:a") != 0 {
		t.Errorf("%s: %v %v", value, s, err)
	}
}

func TestDoctorJudgesServerSettings(t *testing.T) {
	info := func(lines ...string) map[string]string {
		info, _ := wire.Info("# Server\r\nredis_version:7.0.15\r\nrole:master\r\naof_enabled:0\r\n"+
			strings.Join(lines, "\r\n")+"\r\n", nil)
		return info
	}
	// synced is a server that writes every command to disk before it answers.
	synced := func(lines ...string) serverFacts {
		return serverFacts{info: info(append([]string{"aof_enabled:1"}, lines...)...),
			config: map[string]string{"appendfsync": "always"}}
	}
	noPerm := redis.Error("NOPERM this user has no permissions to run the 'scan' command")
	for name, c := range map[string]struct {
		facts serverFacts
		want  string // kind and severity of all findings
	}{
		"well": {serverFacts{
			info: info("aof_enabled:1"), config: map[string]string{"appendfsync": "always", "save": ""}}, ""},
		"no disk": {serverFacts{info: info(), config: map[string]string{"save": ""}},
			"persistence warning"},
		"snapshots": {serverFacts{info: info(), config: map[string]string{"save": "3600 1"}},
			"persistence warning"},
		"not told": {serverFacts{info: info()}, "persistence note"},
		"every s": {serverFacts{
			info: info("aof_enabled:1"), config: map[string]string{"appendfsync": "everysec"}},
			"persistence note"},
		"evicts all":  {synced("maxmemory:1048576", "maxmemory_policy:allkeys-lru"), "eviction error"},
		"evicts ours": {synced("maxmemory:1048576", "maxmemory_policy:volatile-ttl"), "eviction error"},
		"refuses":     {synced("maxmemory:1048576", "maxmemory_policy:noeviction"), "memory note"},
		"would evict": {synced("maxmemory:0", "maxmemory_policy:allkeys-lru"), "eviction note"},
		"has evicted": {synced("evicted_keys:3"), "evicted error"},
		"replica":     {synced("role:slave"), "role error"},
		"replicas": {serverFacts{
			info:   info("aof_enabled:1", "connected_slaves:2"),
			config: map[string]string{"appendfsync": "always", "min-replicas-to-write": "0"}},
			"replicas warning"},
		"old ones": {synced("connected_slaves:2", "redis_version:6.2.11"),
			"replicas warning, replica_ttl note"},
		"full disk":    {synced("rdb_last_bgsave_status:err"), "disk error"},
		"loading":      {synced("loading:1"), "loading error"},
		"no SUBSCRIBE": {serverFacts{subscribing: redis.Error("NOPERM no channel")}, "subscribe note"},
		"no tracking":  {serverFacts{tracking: redis.Error("ERR Unknown subcommand")}, "tracking note"},
		"old scripts": {serverFacts{
			timeWrite: redis.Error("ERR Write commands not allowed after non deterministic commands")},
			"scripts note"},
		"rights": {serverFacts{refused: []refusal{{"SCAN", "ls", noPerm}, {"INFO", "x", noPerm}}},
			"right warning, right note"},
		"idle":        {serverFacts{config: map[string]string{"timeout": "300"}}, "idle note"},
		"clock":       {serverFacts{offset: -3 * time.Second, rtt: time.Millisecond}, "clock warning"},
		"clock, slow": {serverFacts{offset: -3 * time.Second, rtt: 5 * time.Second}, ""},
	} {
		var got []string
		for _, f := range c.facts.judge() {
			got = append(got, fmt.Sprintf("%s %s", f.Kind, f.Severity))
			if f.What == "" || f.Advice == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTrialKeyBeginsWithThePatternsPrefix(t *testing.T) {
	for match, begin := range map[string]string{
		"": "getsetlock:doctor:", "lock:*": "lock:getsetlock:doctor:", "a[bc]*": "agetsetlock:doctor:",
		"x?": "xgetsetlock:doctor:", `y\*`: "ygetsetlock:doctor:"} {
		if got := trialKey(match); !strings.HasPrefix(got, begin) || len(got) < len(begin)+20 {
			t.Errorf("%q: %s", match, got)
		}
	}
}

func TestDoctorReportsALoadingServer(t *testing.T) {
	w := redistest.New(t)
	pool := w.FaultyPool(redistest.Rule{Command: "INFO", Times: -1, Do: redistest.Answer(redistest.Loading)})
	defer pool.Close()
	_, err := Examine(t.Context(), pool, Config{})
	var said redis.Error
	if !errors.As(err, &said) || !strings.HasPrefix(string(said), "LOADING") {
		t.Errorf("%v", err)
	}
}

func TestDoctorReportsAWrongLocalClock(t *testing.T) {
	w := redistest.New(t)
	pool := w.Pool()
	defer pool.Close()
	for offset, warned := range map[time.Duration]bool{
		-3 * time.Second: true, 3 * time.Second: true, 500 * time.Millisecond: false} {
		d, err := Examine(t.Context(), pool,
			Config{Hurry: true, Clock: w.Clock(redistest.Skew{Offset: offset})})
		if err != nil {
			t.Fatal(err)
		}
		says := ""
		for _, c := range d.Complaints {
			if c.Kind == "clock" {
				says = c.What
			}
		}
		side := map[bool]string{true: "3s behind", false: "3s ahead of"}[offset < 0]
		if (says != "") != warned || warned && !strings.Contains(says, side) {
			t.Errorf("%v: %q", offset, says)
		}
	}
}

// The proxy does not answer commands that it does not know.
func TestDoctorDoesNotWaitForASilentProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		begun := time.Now()
		tracking, subscribing := tryTracking(t.Context(),
			w.FaultyPool(redistest.Rule{Command: "CLIENT", Do: redistest.Silence}), time.Second)
		if took := time.Since(begun); tracking == nil || took != time.Second {
			t.Errorf("%v, %v after %v", tracking, subscribing, took)
		}
	})
}
