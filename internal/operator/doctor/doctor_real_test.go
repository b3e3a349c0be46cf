// SPDX-License-Identifier: Apache-2.0

//go:build real

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/probe"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/redisconn"
)

func TestProbeAndDoctorWorkOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			pool := s.Pool()
			defer pool.Close()
			past := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
			s.Do("SET", "lock:a", past)
			s.Do("SET", "lock:huge", strings.Repeat("x", 3<<20))
			s.Do("HSET", "lock:h", "285475da-9152-4c83-822a-67ee2f116a79:52", "1")
			s.Do("SET", "\xac\xed\x00\x05t\x00\x06lock:b", past)
			cfg := probe.Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}}
			got, err := probe.Run(t.Context(), pool, cfg)
			if err != nil || got.Keys != 4 || got.Prefixes[0].Types[keys.Redisson] != 1 {
				t.Fatalf("%+v %v", got, err)
			}
			// The first look is stored on the server. The test makes it older,
			// and the second call acts on it.
			ask := Config{Match: "lock:*", Dialects: cfg.Dialects, Lease: time.Minute, Remember: true}
			first, err := Examine(t.Context(), pool, ask)
			if err != nil || len(fixesOf(first.Complaints)) > 0 {
				t.Fatalf("%+v %v", first, err)
			}
			for _, key := range []string{"lock:a", "\xac\xed\x00\x05t\x00\x06lock:b"} {
				s.Do("HINCRBY", lookKey(key), "sec", -80)
				s.Do("HINCRBY", lookKey(key), "up", -80_000_000) // this machine's uptime agrees with TIME
				if left := s.Do("PTTL", lookKey(key)).(int64); left <= 0 || left > lookTTL.Milliseconds() {
					t.Errorf("%q is remembered for %d ms", key, left)
				}
			}
			d, err := Examine(t.Context(), pool, ask)
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]int{}
			for _, c := range d.Complaints {
				kinds[c.Kind]++
			}
			if kinds["dead"] != 2 || kinds["large"] != 1 || kinds["type"] != 1 || kinds["persistence"] != 1 ||
				kinds["right"] != 0 {
				t.Errorf("%v\n%+v", kinds, d.Complaints)
			}
			if (kinds["tracking"] == 0) != b.Tracking || (kinds["scripts"] == 0) != b.TimeThenWrite {
				t.Errorf("tracking %v, time then write %v: %v", b.Tracking, b.TimeThenWrite, kinds)
			}
			var done []FixOutcome
			if err := Apply(t.Context(), pool, fixesOf(d.Complaints),
				func(_ Fix, o FixOutcome) { done = append(done, o) }); err != nil ||
				fmt.Sprint(done) != "[done done]" {
				t.Errorf("%v %v", done, err)
			}
			if n := s.Do("EXISTS", "lock:a"); fmt.Sprint(n) != "0" {
				t.Errorf("lock:a: %v", n)
			}
			t.Log(strings.Join(d.Facts, "\n"))
		})
	}
}

// Doctor names the rights that the user lacks, and a refused command does not
// end the examination.
func TestMissingRightsAreNamed(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	s.Do("SET", "lock:a", fmt.Sprint(time.Now().UnixMilli()))
	s.Do("SET", "other", "x")
	url := s.User("look", "pw", "~lock:*", "+@read", "+scan", "+time", "+getrange", "-info", "-config",
		"-client")
	a, err := redisconn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := a.Pool(redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := Examine(t.Context(), pool, Config{Match: "lock:*"})
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, c := range d.Complaints {
		if c.Kind == "right" {
			_, what, _ := strings.Cut(c.What, "may not use ")
			missing = append(missing, what[:strings.Index(what, " (")])
		}
	}
	slices.Sort(missing)
	if got := strings.Join(missing, ", "); got != "CLIENT LIST, CONFIG GET, DEL, EVAL, INFO, PEXPIRE, SET" {
		t.Errorf("missing: %s", got)
	}
	got, err := probe.Run(t.Context(), pool, probe.Config{})
	if err != nil || got.Keys != 2 || got.Denied != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestProbeAndDoctorReportAReplica(t *testing.T) {
	replica := redistest.Real(t, redistest.Options{}).StartReplica()
	pool := replica.Pool()
	defer pool.Close()
	got, err := probe.Run(t.Context(), pool, probe.Config{})
	if err != nil || len(got.Findings) == 0 || got.Findings[0].Kind != "role" {
		t.Errorf("%+v %v", got, err)
	}
	d, err := Examine(t.Context(), pool, Config{})
	if err != nil || len(d.Complaints) == 0 || d.Complaints[0].Kind != "role" {
		t.Errorf("%+v %v", d, err)
	}
}
