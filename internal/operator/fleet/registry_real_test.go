// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// known are complete claims.
var known = Claims{Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: 30 * time.Second,
	Gone: true}

// BenchmarkGateOfTenThousandKeys looks at a namespace of 10,000 locks among as
// many other keys. It reports the longest PING of another client meanwhile.
func BenchmarkGateOfTenThousandKeys(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	pool := s.Pool()
	fill(b, pool, 10_000)
	if _, err := Init(context.Background(), pool, Options{Namespace: "stock"}); err != nil {
		b.Fatal(err)
	}
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		c := pool.Get()
		defer c.Close()
		var most []time.Duration
		for {
			select {
			case <-stop:
				slices.Sort(most)
				worst <- most[len(most)*999/1000]
				return
			default:
			}
			sent := time.Now()
			if _, err := c.Do("PING"); err != nil {
				b.Error(err)
			}
			most = append(most, time.Since(sent))
		}
	}()
	for b.Loop() {
		r, err := Advance(context.Background(), pool, Options{Namespace: "stock", Claims: known})
		if err != nil {
			b.Fatal(err)
		}
		if n := len(r.Gate.Evidence); n < 5 {
			b.Fatalf("%d pieces of evidence", n)
		}
	}
	close(stop)
	b.ReportMetric(float64(<-worst)/1e6, "ms-ping-p99.9")
}

func fill(b *testing.B, pool *redis.Pool, n int) {
	b.Helper()
	c := pool.Get()
	defer c.Close()
	stamp := fmt.Sprint(time.Now().Add(time.Minute).UnixMilli())
	for i := range n {
		for _, key := range []string{fmt.Sprintf("stock:%d", i), fmt.Sprintf("other:%d", i)} {
			if err := c.Send("SET", key, stamp); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := c.Do(""); err != nil {
		b.Fatal(err)
	}
}

// TestOnEveryServerAFleetGoesTheWholeRoad has members with real bridges, whose
// probes run the very scripts.
func TestOnEveryServerAFleetGoesTheWholeRoad(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			pool := s.Pool()
			o := Options{Claims: known, Go: true, Wait: time.Minute}
			r, err := Init(bg, pool, o)
			if err != nil || !r.Moved {
				t.Fatal(err, r)
			}
			m, err := migrate.Join(bg, pool, migrate.MemberConfig{Every: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Leave()
			bridge, err := migrate.New(pool, migrate.Config{Phases: m})
			if err != nil {
				t.Fatal(err)
			}
			defer bridge.Close()
			go1 := func(what string, v func(context.Context, *redis.Pool, Options) (*Report, error),
				to migrate.Phase) {
				t.Helper()
				if err := m.Refresh(bg); err != nil {
					t.Fatal(err)
				}
				r, err := v(bg, pool, o)
				if err != nil {
					t.Fatal(what, err)
				}
				if !r.Moved || r.Phase != to || !r.Over {
					t.Fatalf("%s: phase %v, %v", what, r.Phase, r.Gate.Blocks)
				}
				if err := m.Refresh(bg); err != nil {
					t.Fatal(err)
				}
				g, err := bridge.Contract().Try(bg, "stock", 10*time.Second)
				if err != nil {
					t.Fatal(what, err)
				}
				if err := g.Release(bg); err != nil {
					t.Fatal(what, err)
				}
			}
			go1("advance", Advance, migrate.Dual)
			go1("advance", Advance, migrate.Sealed)
			go1("back", Back, migrate.Dual)
			go1("advance", Advance, migrate.Sealed)
			go1("advance", Advance, migrate.Modern)
			if n := s.Do("EXISTS", "stock"); n != int64(1) {
				t.Errorf("no tombstone stands: %v", n)
			}
			go1("clean", CleanUp, migrate.Clean)
			if n := s.Do("PTTL", "stock").(int64); n < (29 * 24 * time.Hour).Milliseconds() {
				t.Errorf("the tombstone stands for another %d ms", n)
			}
			if r, err := Sweep(bg, pool, Options{Go: true}); err != nil || !r.Gate.Open {
				t.Errorf("sweep: %+v, %v", r, err)
			}
			if n := s.Do("EXISTS", "stock"); n != int64(0) {
				t.Errorf("a tombstone is left: %v", n)
			}
			if err := m.Goodbye(bg); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAServerThatMayDropMarksClosesTheGate asks a real one for its policy.
func TestAServerThatMayDropMarksClosesTheGate(t *testing.T) {
	s := redistest.Real(t, redistest.Options{
		Args: []string{"--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"}})
	pool := s.Pool()
	if _, err := Init(bg, pool, Options{}); err != nil {
		t.Fatal(err)
	}
	r, err := Advance(bg, pool, Options{Claims: known})
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(r.Gate); !slices.Contains(got, "eviction") {
		t.Errorf("closed by %q", got)
	}
}

// documented are the commands that docs/guide/migration.md lists after a
// phrase, up to the keys that they are for.
func documented(t *testing.T, after string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/guide/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(page), after)
	listed, _, found := strings.Cut(listed, " on `gsl:*`")
	commands := regexp.MustCompile(`[A-Z]+`).FindAllString(listed, -1)
	if !found || len(commands) < 8 {
		t.Fatalf("docs/guide/migration.md lists %q after %q", commands, after)
	}
	for i, c := range commands {
		commands[i] = strings.ToLower(c)
	}
	return commands
}

// TestTheDocumentedRightsAreEnough has an operator and a member with exactly
// the rights that docs/guide/migration.md lists.
func TestTheDocumentedRightsAreEnough(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	rights := func(name string, commands ...string) *redis.Pool {
		rules := []string{"~gsl:*", "~stock*", "~{stock*", "-@all"}
		for _, c := range commands {
			rules = append(rules, "+"+c)
		}
		url := s.User(name, "secret", rules...)
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
		t.Cleanup(func() { _ = pool.Close() })
		return pool
	}
	operator, member := rights("operator", documented(t, "Rights for the operator: ")...),
		rights("member", documented(t, "Rights for members: ")...)
	o := Options{Namespace: "stock", Claims: known, Go: true}
	if _, err := Init(bg, operator, o); err != nil {
		t.Fatal(err)
	}
	m, err := migrate.Join(bg, member, migrate.MemberConfig{Namespace: "stock"})
	if err != nil {
		t.Fatal(err)
	}
	m.Attach(func(context.Context, string) error { return nil })
	step := func(v func(context.Context, *redis.Pool, Options) (*Report, error)) {
		t.Helper()
		if err := m.Refresh(bg); err != nil {
			t.Fatal(err)
		}
		r, err := v(bg, operator, o)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Moved {
			t.Fatal(r.Gate.Blocks)
		}
	}
	step(Advance)
	step(Advance)
	s.Do("SET", "stock:1", dialect.Jedis().Tombstone())
	step(Back)
	if n := s.Do("EXISTS", "stock:1"); n != int64(0) {
		t.Error("the tombstone is left")
	}
	if err := m.GoodbyeAfter(bg, time.Second); err != nil {
		t.Error(err)
	}
}
