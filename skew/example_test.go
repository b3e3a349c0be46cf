// SPDX-License-Identifier: Apache-2.0

package skew_test

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Old clients with leases of a minute do jobs of 40 s. Can two of them hold at
// once while NTP keeps their clocks within a second, and while it does not?
func ExampleLaw() {
	for _, spread := range []time.Duration{time.Second, 30 * time.Second} {
		law := skew.Law{Dialect: dialect.Named("Jedis"), Lease: time.Minute, Job: 40 * time.Second,
			Delay: time.Second, Spread: spread}
		verdict, err := law.Verdict()
		if err != nil {
			panic(err)
		}
		fmt.Printf("clock spread %v, two can hold: %v\n", spread, verdict.Possible)
		fmt.Printf("longest overlap %v, longest safe job %v\n", verdict.Overlap, verdict.LongestJob)
	}
	// Output:
	// clock spread 1s, two can hold: false
	// longest overlap 0s, longest safe job 58.001s
	// clock spread 30s, two can hold: true
	// longest overlap 10.999s, longest safe job 29.001s
}

// Explore tries every order of the clients' steps. Its trace is a shortest one
// in which two hold at once; here a tick is six seconds.
func ExampleExplore() {
	law := skew.Law{Dialect: dialect.Named("Jedis"), Lease: time.Minute, Job: 40 * time.Second,
		Spread: 30 * time.Second}
	scenario, tick, err := law.Scenario(2)
	if err != nil {
		panic(err)
	}
	result, err := skew.Explore(scenario)
	if err != nil {
		panic(err)
	}
	fmt.Println("two hold:", result.Found, "tick:", tick)
	fmt.Print(result.Trace.Words())
	scenario.Ahead = 0 // the same jobs with clocks that agree
	result, err = skew.Explore(scenario)
	if err != nil {
		panic(err)
	}
	fmt.Println("two hold while clocks agree:", result.Found, "searched all:", result.Complete)
	// Output:
	// two hold: true tick: 6s
	//    0  old1   reads its clock, which is +0, and makes its stamp
	//    0  old1   SETNX: it holds
	//    6  old2   reads its clock, which is +0, and makes its stamp
	//    6  old2   SETNX: it does not get the lock
	//    6  old2   GET: a value
	//    6  old2   finds the value expired by its clock (+5), GETSET: it holds
	// two hold while clocks agree: false searched all: true
}
