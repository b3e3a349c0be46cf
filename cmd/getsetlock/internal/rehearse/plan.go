package rehearse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

// Plan says what is rehearsed. It travels to the child process as JSON.
type Plan struct {
	// Protocol is one of Protocols.
	Protocol string

	// Dialect is the old clients', where the protocol has one.
	Dialect dialect.Dialect

	// Clients is how many programs take part, over all groups.
	Clients int

	// Seed fixes how long jobs and messages take, who dies when, and how far clocks are apart.
	Seed uint64

	// Acquisitions is how many orders are worked through; the list is begun anew as often as needed.
	Acquisitions int

	// Lease is the old clients' lease; zero: their dialect's own.
	Lease time.Duration

	// Poll is how often the old clients ask for a held key; zero: their dialect's own.
	Poll time.Duration

	// Latency is how long one message takes one way on the embedded server.
	Latency dist.Dist

	// Job is how long a program thinks between reading the stock and writing it back.
	Job dist.Dist

	// Spread is how far the clients' clocks may lie apart: each is off by up to half of it.
	Spread time.Duration

	// Preset names what ails the machines' clocks instead, and when they stand still: see
	// simulate.Presets, but for those that afflict the server. Empty: only Spread.
	Preset string

	// Crashes is how many holders of each group die in the middle of a job.
	Crashes int

	// Overruns is how many jobs of old clients outlast their lease.
	Overruns int

	// Patience is how long a program waits for one key before it puts the order aside; zero: long
	// enough for a dead holder's lease to end.
	Patience time.Duration

	// Rest is how long the fleet has nothing to do after each stage of a migration; zero: so that all of it
	// takes a day.
	Rest time.Duration

	// Watch lets a migration's gates be told by a watcher of the server, and not by the rehearsal itself.
	Watch bool

	Orders []Order
}

const (
	mostClients      = 200
	mostAcquisitions = 10_000_000

	// restart is how long a program that died is away.
	restart = time.Second

	// startsApart is how long after each other the programs start.
	startsApart = 1370 * time.Microsecond

	// onShelf is how much of what is ordered is there, in percent: orders that must be refused are
	// what makes a sale too many possible.
	onShelf = 80
)

// DefaultPlan is the rehearsal without arguments.
func DefaultPlan() Plan {
	return Plan{
		Protocol:     "legacy",
		Dialect:      dialect.Jedis(),
		Clients:      8,
		Seed:         1,
		Acquisitions: 4000,
		Latency:      must(dist.Parse("100us..400us")),
		Job:          must(dist.Parse("2ms..20ms")),
		Crashes:      2,
		Orders:       SampleOrders(),
	}
}

// ForServer replaces what suits virtual time by what suits real time, where no flag was given: fewer
// orders, a lease short enough to see it end. Latency is the server's own.
func (p *Plan) ForServer(given func(flag string) bool) {
	if !given("acquisitions") {
		p.Acquisitions = 1000
	}
	if !given("lease") {
		p.Lease = 5 * time.Second
	}
	p.Latency = dist.Dist{}
	p.Watch, p.Rest = true, time.Second
	if p.Protocol == "bare" {
		p.Patience = 2 * time.Second // a key that is stuck stays so, however long one waits
	}
}

// Move makes it the rehearsal of a migration through all phases.
func (p *Plan) Move() { p.Protocol = movingFleet }

// Validate refuses what cannot be rehearsed; the error names the flag.
func (p Plan) Validate() error {
	if _, ok := protocols[p.Protocol]; !ok {
		return fmt.Errorf("--protocol %s is not one of %s", p.Protocol, strings.Join(Protocols(), ", "))
	}
	// A third kind of programs comes when the first is gone.
	if least := min(len(protocols[p.Protocol].groups(p)), 2); p.Clients < least || p.Clients > mostClients {
		return fmt.Errorf("--clients %d: with --protocol %s from %d to %d can take part", p.Clients, p.Protocol, least, mostClients)
	}
	if p.Acquisitions < 1 || p.Acquisitions > mostAcquisitions {
		return fmt.Errorf("--acquisitions %d is not from 1 to %d", p.Acquisitions, mostAcquisitions)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"lease", p.Lease}, {"poll", p.Poll}, {"spread", p.Spread}} {
		if d.value < 0 || d.value > 24*time.Hour {
			return fmt.Errorf("--%s %v is not from 0 to 24h", d.flag, d.value)
		}
	}
	if p.Crashes < 0 || p.Overruns < 0 {
		return fmt.Errorf("--crashes %d, --overruns %d: neither can be negative", p.Crashes, p.Overruns)
	}
	if err := p.validatePreset(); err != nil {
		return err
	}
	if p.Overruns > 0 && protocols[p.Protocol].overrun == nil {
		return fmt.Errorf("--overruns %d: with --protocol %s nobody has a lease that a job could outlast", p.Overruns, p.Protocol)
	}
	if len(p.Orders) == 0 {
		return errors.New("--orders: there are none")
	}
	_, err := protocols[p.Protocol].rules(p)
	return err
}

func (p Plan) validatePreset() error {
	switch {
	case p.Preset == "":
		return nil
	case p.Spread > 0:
		return errors.New("--preset and --spread both say how far clocks are apart: give one")
	}
	preset, err := simulate.Lookup(p.Preset)
	if err != nil {
		return fmt.Errorf("--%s", strings.TrimPrefix(err.Error(), "skew: "))
	}
	if preset.Clocks.Server.Any() {
		return fmt.Errorf("--preset %s: the server's clock is right in a rehearsal; ask getsetlock skew --preset %s", p.Preset, p.Preset)
	}
	return nil
}

// The seed is split into streams, one for each thing that is drawn, so that drawing more of one leaves
// the others as they were.
const (
	streamJob = iota
	streamFate
	streamClock
	streamWire
	streamJitter
)

func (p Plan) rand(stream, n int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(stream)<<48|uint64(n)))
}

// stock is how much of each product is there when the rehearsal begins.
func (p Plan) stock() map[string]int {
	demand := make(map[string]int)
	for i := range p.Acquisitions {
		o := p.Orders[i%len(p.Orders)]
		demand[o.SKU] += o.Quantity
	}
	share := onShelf
	if p.Protocol == movingFleet {
		share = 100 // goods that ran out before the last phases would leave nothing to be sold twice there
	}
	for sku, n := range demand {
		demand[sku] = n*share/100 + 1
	}
	return demand
}

// skus are the products in the order of their names.
func (p Plan) skus() []string {
	var all []string
	for sku := range p.stock() {
		all = append(all, sku)
	}
	slices.Sort(all)
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
