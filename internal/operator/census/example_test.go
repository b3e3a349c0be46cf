package census_test

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// A census counts what events show. Here one client overruns its lease of a
// minute, and its release deletes the lock of the next holder.
func ExampleCensus() {
	c, err := census.New(census.Config{Dialects: []dialect.Dialect{dialect.Jedis()}, Lease: time.Minute})
	if err != nil {
		panic(err)
	}
	start := time.UnixMilli(1770000000000).UTC()
	stamp := func(after time.Duration) string {
		return fmt.Sprint(start.Add(after + time.Minute).UnixMilli())
	}
	add := func(after time.Duration, addr string, words ...string) {
		c.Add(offset.Observed{At: start.Add(after), Kind: offset.ObservedCommand, Addr: addr, Args: words})
	}
	const slow, next = "10.0.0.1:40001", "10.0.0.2:40002"
	c.Add(offset.Observed{At: start, Kind: offset.ObservedGap, Reason: "monitor budget on from here"})
	// the key is free
	c.Add(offset.Observed{At: start.Add(time.Millisecond), Kind: offset.ObservedLook, Key: "lock:stock"})
	add(time.Second, slow, "SETNX", "lock:stock", stamp(time.Second))
	add(62*time.Second, next, "SETNX", "lock:stock", stamp(62*time.Second))
	add(62*time.Second, next, "GET", "lock:stock")
	add(62*time.Second, next, "GETSET", "lock:stock", stamp(62*time.Second))
	add(70*time.Second, slow, "DEL", "lock:stock")

	evidence, findings := c.Evidence()
	fmt.Println("acquisitions:", evidence.Counts.Acquisitions)
	fmt.Println("overruns:", evidence.Counts.Overruns)
	for _, f := range findings {
		if f.Severity == census.SeverityError {
			fmt.Printf("%s: %s\n", f.Kind, f.What)
		}
	}
	// Output:
	// acquisitions: 2
	// overruns: 1
	// overlap: 10.0.0.1:40001: once it was still at work after another client had won the lock
	// overrun: 10.0.0.1:40001: one release deleted a lock after its own stamp was past, or deleted another client's lock
	// job_too_long: held for 1m9s, and no job longer than 1m0.001s is safe with these clocks and leases
}
