package simulate_test

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/legacy/dialect"
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
