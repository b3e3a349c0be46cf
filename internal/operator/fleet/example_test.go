package fleet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// serve starts an embedded server and returns a pool of connections to it.
func serve() (pool *redis.Pool, end func()) {
	server, err := miniredis.Run()
	must(err)
	pool = &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	return pool, func() { pool.Close(); server.Close() }
}

// must ends an example whose setup failed.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// service starts a program that joins the fleet, and returns what stops it.
func service(pool *redis.Pool) (stop func()) {
	member, err := migrate.Join(context.Background(), pool, migrate.MemberConfig{})
	must(err)
	bridge, err := migrate.New(pool, migrate.Config{Phases: member})
	must(err)
	must(member.Refresh(context.Background())) // reports that its scripts run
	return func() { bridge.Close(); must(member.Leave()) }
}

// claims are the operator's words on the old clients: what their configuration
// says, and how well NTP keeps their clocks. A watch can measure some of it.
var claims = fleet.Claims{Lease: time.Minute, Job: 30 * time.Second, Spread: time.Second, Gap: time.Second}

// Init writes the record, with phase observe. A script may call it again: it
// then changes nothing and says why.
func ExampleInit() {
	pool, end := serve()
	defer end()
	for range 2 {
		report, err := fleet.Init(context.Background(), pool, fleet.Options{Namespace: "stock:"})
		must(err)
		fmt.Println("moved:", report.Moved, "phase:", report.Phase)
		if report.Gate != nil {
			for _, block := range report.Gate.Blocks {
				fmt.Println("blocked by", block.Rule)
			}
		}
	}
	// Output:
	// moved: true phase: observe
	// moved: false phase: observe
	// blocked by record
}

// Status says what closes the gate to the next phase, and changes nothing.
func ExampleStatus() {
	pool, end := serve()
	defer end()
	ctx := context.Background()
	_, err := fleet.Init(ctx, pool, fleet.Options{})
	must(err)

	report, err := fleet.Status(ctx, pool, fleet.Options{Claims: claims})
	must(err)
	fmt.Println("phase:", report.Phase, "members:", len(report.Members))
	fmt.Println("gate to", report.Gate.To, "open:", report.Gate.Open)
	for _, block := range report.Gate.Blocks {
		fmt.Println(block.Rule+":", block.Detail)
	}
	// Output:
	// phase: observe members: 0
	// gate to dual open: false
	// members: no program is registered, so none can acknowledge a step: start a program that joins the namespace ""
}

// Advance takes one step if its gate is open and Options.Go is set. A closed
// gate is no error: the report says what closes it. With Options.To the call
// can be repeated, and takes the step once.
func ExampleAdvance() {
	pool, end := serve()
	defer end()
	_, err := fleet.Init(context.Background(), pool, fleet.Options{})
	must(err)
	defer service(pool)()

	for _, options := range []fleet.Options{
		{Go: true, To: migrate.Dual},                 // nothing was measured or claimed
		{To: migrate.Dual, Claims: claims},           // only looks at the gate
		{Go: true, To: migrate.Dual, Claims: claims}, // takes the step
		{Go: true, To: migrate.Dual, Claims: claims}, // sent again
	} {
		report, err := fleet.Advance(context.Background(), pool, options)
		must(err)
		fmt.Println("phase:", report.Phase, "moved:", report.Moved)
		if report.Gate != nil {
			for _, block := range report.Gate.Blocks {
				fmt.Println("blocked by", block.Rule) // block.Detail says what to do
			}
		}
	}
	// Output:
	// phase: observe moved: false
	// blocked by lease
	// blocked by spread
	// blocked by gap
	// blocked by job
	// phase: observe moved: false
	// phase: dual moved: true
	// phase: dual moved: false
}
