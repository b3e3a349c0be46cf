package audit_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// serve starts an embedded server with these keys and returns a pool of
// connections to it.
func serve(keys map[string]string) (pool *redis.Pool, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	for key, value := range keys {
		if err := server.Set(key, value); err != nil {
			panic(err)
		}
	}
	pool = &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	return pool, func() { pool.Close(); server.Close() }
}

// heldFor returns the value of a Jedis client's lock that expires after d.
func heldFor(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMilli()) }

// A watch runs until its time is over or its context ends. This one ends as
// soon as it has seen a lock.
func ExampleWatch() {
	pool, end := serve(map[string]string{"lock:stock": heldFor(time.Minute), "page:7": "<html>"})
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	result, err := audit.Watch(ctx, pool, audit.Config{
		Config: census.Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()},
			Lease: time.Minute},
		For:       time.Hour,
		SeenEvery: 10 * time.Millisecond,
		Seen: func(soFar *audit.Result) {
			if len(soFar.Evidence.Keys) > 0 {
				stop()
			}
		},
	})
	if err != nil {
		panic(err)
	}
	for _, key := range result.Evidence.Keys {
		fmt.Println(key.Key, "is a lock of", strings.Join(key.Dialects, " or "))
	}
	fmt.Println("MONITOR:", result.Evidence.Covered(census.SourceMonitor).Missing)
	// Output:
	// lock:stock is a lock of Jedis
	// MONITOR: not asked for
}

// A record can be judged again later, on another machine and with other claims.
func ExampleReplay() {
	record := `getsetlock.observed/1
1770000000.000000 gap 0 "monitor budget on from here"
1770000000.500000 look "lock:stock" - -
1770000001.000000 cmd "10.0.0.1:40001" 0 "SETNX" "lock:stock" "1770000061001"
1770000006.000000 cmd "10.0.0.1:40001" 0 "DEL" "lock:stock"
`
	result, err := audit.Replay(strings.NewReader(record), audit.Config{
		Config: census.Config{Dialects: []dialect.Dialect{dialect.Jedis()}, Lease: time.Minute,
			Job: 3 * time.Second},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("acquisitions:", result.Evidence.Counts.Acquisitions)
	fmt.Println("longest hold:", result.Evidence.LongestHold.Value)
	for _, f := range result.Findings {
		fmt.Println(f.Severity, f.What)
	}
	// Output:
	// acquisitions: 1
	// longest hold: 5s
	// error the claim of 3s for the longest job is refuted: 5s was seen
}

// A probe reads every key once and says how the locks are written.
func ExampleProbe() {
	pool, end := serve(map[string]string{
		"lock:stock": heldFor(time.Minute), "lock:order": heldFor(-time.Hour),
		"lock:report": "locked by hand",
	})
	defer end()
	found, err := audit.Probe(context.Background(), pool, audit.ProbeConfig{
		Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()},
	})
	if err != nil {
		panic(err)
	}
	for _, prefix := range found.Prefixes {
		for _, form := range prefix.Forms {
			fmt.Printf("%s* has %d × %s, %d expired\n", prefix.Prefix, form.Keys, form.Form, form.Expired)
		}
	}
	// Output:
	// lock:* has 2 × milliseconds, 1 expired
	// lock:* has 1 × unreadable text, 0 expired
}

// Doctor changes nothing. What it offers to change is applied by ApplyFixes,
// which compares each value once more.
func ExampleDoctor() {
	pool, end := serve(map[string]string{
		"lock:stock": heldFor(time.Minute), "lock:order": heldFor(-time.Hour)})
	defer end()
	ctx := context.Background()
	diagnosis, err := audit.Doctor(ctx, pool, audit.DoctorConfig{
		Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()},
		Behind: time.Second, // a claim: no client's clock is further behind the server's
	})
	if err != nil {
		panic(err)
	}
	var fixes []audit.Fix
	for _, complaint := range diagnosis.Complaints {
		if complaint.Fix != nil {
			fmt.Println(complaint.Key, "is", complaint.Kind)
			fixes = append(fixes, *complaint.Fix)
		}
	}
	err = audit.ApplyFixes(ctx, pool, fixes, func(fix audit.Fix, outcome audit.FixOutcome) {
		fmt.Println(fix.Do, fix.Key+":", outcome)
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// lock:order is dead
	// delete lock:order: done
}
