// SPDX-License-Identifier: Apache-2.0

//go:build real

package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Servers of all versions are asked, over TCP and once over a socket.
func TestServersReportThePoolsDatabase(t *testing.T) {
	asks := func(t *testing.T, url string, want int) {
		t.Helper()
		pool := poolAt(t, url)
		defer pool.Close()
		if n, known := databaseOf(t.Context(), pool, redistest.Patience); !known || n != want {
			t.Errorf("%s: database %d, known %v", url, n, known)
		}
		other := Config{Config: census.Config{DB: want + 1}, For: time.Second}
		if _, err := Watch(t.Context(), pool, other); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("DB is %d", want+1)) {
			t.Errorf("a watch of another database: %v", err)
		}
	}
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			asks(t, s.URL(), 0)
			asks(t, s.URL()+"/3", 3)
		})
	}
	socket := redistest.Real(t, redistest.Options{Unix: true})
	asks(t, socket.URL()+"?db=5", 5)
}

// A client can reach a database in several ways. Each sends a SETNX, on servers
// of all versions, and the filter reads what MONITOR shows.
func TestMonitorShowsTheDatabaseOfEachCommand(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			zero, three := s.Pool(), poolAt(t, s.URL()+"/3")
			defer zero.Close()
			defer three.Close()
			m, in0, in3 := zero.Get(), zero.Get(), three.Get()
			defer m.Close()
			defer in0.Close()
			defer in3.Close()
			do := func(c redis.Conn, name string, words ...any) {
				t.Helper()
				if _, err := c.Do(name, words...); err != nil {
					t.Fatal(name, words, err)
				}
			}
			do(m, "MONITOR")
			const script = "return redis.call('SETNX', KEYS[1], ARGV[1])"
			value := jedisStamp(time.Now())
			do(in3, "SETNX", "lock:plain", value)
			do(in3, "MULTI")
			do(in3, "SETNX", "lock:multi", value)
			do(in3, "EXEC")
			do(in3, "EVAL", script, 1, "lock:script", value)
			do(in0, "EVAL", "redis.call('SELECT', 3) "+script, 1, "lock:selects", value)
			do(in0, "EVAL", script, 1, "lock:elsewhere", value)
			do(in0, "SETNX", "lock:zero", value)
			do(in0, "SELECT", 3)
			do(in0, "SETNX", "lock:select", value)
			do(in0, "PING", "over")
			cfg := census.Config{Match: "lock*", DB: 3, Dialects: []dialect.Dialect{dialect.Jedis()}}
			var found []string
			filter := newFilter(filled(t, Config{Config: cfg}),
				func(key string) { found = append(found, key) })
			for {
				text, err := redis.String(m.Receive())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := new(parser).parse(text, 8, longestArg); err != nil {
					t.Errorf("%q: %v", text, err)
				}
				if filter.line(text, nil); strings.Contains(text, `"over"`) {
					break
				}
			}
			want := []string{"lock:plain", "lock:multi", "lock:script", "lock:selects", "lock:select"}
			if !slices.Equal(found, want) {
				t.Errorf("found %q", found)
			}
		})
	}
}
