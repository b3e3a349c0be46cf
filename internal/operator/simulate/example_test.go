package simulate_test

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// A lease of 30 s, jobs of 5 to 40 s, clocks kept by timesyncd: which of the
// two is the problem?
func ExampleRun() {
	job, err := simulate.ParseDistribution("job", "5s..40s")
	if err != nil {
		panic(err)
	}
	preset, err := simulate.Lookup("timesyncd")
	if err != nil {
		panic(err)
	}
	rates, err := simulate.Run(simulate.Fleet{
		Dialect: dialect.Jedis(), Clients: 3, Lease: 30 * time.Second,
		Job: job, Rest: simulate.Constant(time.Minute), Latency: simulate.Constant(time.Millisecond),
		Clocks: preset.Clocks, For: 30 * 24 * time.Hour, Seed: 1,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("two hold now and then:", rates.Episodes > 0)
	fmt.Println("mostly because of:", rates.Causes.Main())
	// Output:
	// two hold now and then: true
	// mostly because of: job
}

// Five members, each of which restarts without its data once an hour. It makes
// a difference whether clients take all votes, and whether a restarted member
// waits before it votes.
func ExampleQuorum_Run() {
	q := simulate.Quorum{
		Members: 5, Clients: 3, TTL: 30 * time.Second, Job: simulate.Constant(40 * time.Second),
		Latency: simulate.Constant(time.Millisecond), Retry: time.Second, Restarted: time.Hour,
		Acquisitions: 2000, Seed: 1,
	}
	all, err := q.Run(nil)
	if err != nil {
		panic(err)
	}
	q.Votes = 3
	bare, err := q.Run(nil)
	if err != nil {
		panic(err)
	}
	q.Wait = true
	waits, err := q.Run(nil)
	if err != nil {
		panic(err)
	}
	fmt.Println("two hold with all votes:", all.Episodes > 0)
	fmt.Println("two hold with a bare majority:", bare.Episodes > 0)
	fmt.Println("the same, but restarted members wait:", waits.Episodes > 0)
	// Output:
	// two hold with all votes: false
	// two hold with a bare majority: true
	// the same, but restarted members wait: false
}
