// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/legacy"
)

// Plan says what is rehearsed.
type Plan struct {
	// Protocol is one of Protocols.
	Protocol string

	// Dialect of the old clients, where the protocol has old clients.
	Dialect dialect.Dialect

	// Clients is the number of programs in all groups.
	Clients int

	// Seed fixes how long jobs and messages take, which programs die when, and
	// the clocks' offsets.
	Seed uint64

	// Acquisitions is the number of orders. The list is repeated as needed.
	Acquisitions int

	// Lease of the old clients. Zero: the dialect's own.
	Lease time.Duration

	// Poll is the time between an old client's attempts. Zero: the dialect's
	// own.
	Poll time.Duration

	// Latency of one message, one way, on the embedded server.
	Latency dist.Dist

	// Job is the time of a program between reading the stock and writing it
	// back.
	Job dist.Dist

	// Spread is the largest difference between two clients' clocks: each is off
	// by up to half of it.
	Spread time.Duration

	// Preset names a kind of wrong clocks and pauses, in place of Spread: one
	// of simulate.Presets, except those that affect the server. Empty: only
	// Spread.
	Preset string

	// Crashes is the number of holders of each group that die in the middle of
	// a job.
	Crashes int

	// Overruns is the number of old clients' jobs that outlast their lease.
	Overruns int

	// Patience is how long a program waits for one key before it gives up the
	// order. Zero: long enough for a dead holder's lease to end.
	Patience time.Duration

	// Rest is how long the fleet has nothing to do after each stage of a
	// migration. Zero: so long that the migration takes a day.
	Rest time.Duration

	// Watch lets a watcher of the server inform a migration's gates, in place
	// of the rehearsal itself.
	Watch bool

	// History is the product whose history the result shows, or AnyProduct.
	// Empty: none.
	History string

	Orders []Order
}

const (
	mostClients      = 200
	mostAcquisitions = 10_000_000

	// restart is how long a program that died is away.
	restart = time.Second

	// startsApart is the time between the starts of two programs.
	startsApart = 1370 * time.Microsecond

	// onShelf is the stock in percent of the demand. Without orders that must
	// be rejected, overselling would be impossible.
	onShelf = 80
)

// DefaultPlan returns the plan of a rehearsal without flags.
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

// ForServer replaces defaults for virtual time by those for real time, where no
// flag was given: fewer orders, and a lease short enough to see its end. The
// server has its own latency.
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
		p.Patience = 2 * time.Second // a key that is stuck stays stuck, however long a client waits
	}
}

// Move makes the plan a migration through all phases.
func (p *Plan) Move() { p.Protocol = movingFleet }

// Validate refuses what cannot be rehearsed. The error names the flag.
func (p Plan) Validate() error {
	if _, ok := protocols[p.Protocol]; !ok {
		return fmt.Errorf("--protocol %s is not one of %s", p.Protocol, strings.Join(Protocols(), ", "))
	}
	// The third group comes after the first is gone.
	if least := min(len(protocols[p.Protocol].groups(p)), 2); p.Clients < least || p.Clients > mostClients {
		return fmt.Errorf("--clients %d: --protocol %s takes %d to %d programs", p.Clients, p.Protocol, least,
			mostClients)
	}
	if p.Acquisitions < 1 || p.Acquisitions > mostAcquisitions {
		return fmt.Errorf("--acquisitions %d: it must be from 1 to %d", p.Acquisitions, mostAcquisitions)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"lease", p.Lease}, {"poll", p.Poll}, {"spread", p.Spread}} {
		if d.value < 0 || d.value > 24*time.Hour {
			return fmt.Errorf("--%s %v: it must be from 0 to 24h", d.flag, d.value)
		}
	}
	if p.Crashes < 0 || p.Overruns < 0 {
		return fmt.Errorf("--crashes %d, --overruns %d: neither may be negative", p.Crashes, p.Overruns)
	}
	if err := p.validatePreset(); err != nil {
		return err
	}
	if p.Overruns > 0 && !protocols[p.Protocol].dialect {
		return fmt.Errorf("--overruns %d: --protocol %s has no leases that a job could outlast", p.Overruns,
			p.Protocol)
	}
	if len(p.Orders) == 0 {
		return errors.New("--orders: the file has no orders")
	}
	_, _, err := protocols[p.Protocol].legal(p)
	return err
}

func (p Plan) validatePreset() error {
	switch {
	case p.Preset == "":
		return nil
	case p.Spread > 0:
		return errors.New("--preset and --spread both give the clock spread: give one")
	}
	preset, err := simulate.Lookup(p.Preset)
	if err != nil {
		return fmt.Errorf("--%s", strings.TrimPrefix(err.Error(), "skew: "))
	}
	if preset.Clocks.Server.Any() {
		return fmt.Errorf(
			"--preset %s: in a rehearsal the server's clock is right; use getsetlock skew --preset %s",
			p.Preset, p.Preset)
	}
	return nil
}

// The seed is split into streams, one for each kind of draw. More draws of one
// kind then leave the others unchanged.
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

// products returns the products of all orders, with the names of their keys.
func (p Plan) products(prefix string) (map[string]*product, error) {
	all := make(map[string]*product)
	for i := range p.Acquisitions {
		o := p.Orders[i%len(p.Orders)]
		one := all[o.SKU]
		if one == nil {
			one = &product{sku: o.SKU, shelf: prefix + "stock:" + o.SKU, name: prefix + "lock:" + o.SKU}
			all[o.SKU] = one
		}
		one.stock += o.Quantity
		one.orders++
	}
	share := onShelf
	if p.Protocol == movingFleet {
		share = 100 // if goods ran out before the last phases, nothing could be oversold there
	}
	for _, one := range all {
		one.stock = one.stock*share/100 + 1
		key, err := p.spoken().EncodeKey(one.name)
		if err != nil {
			return nil, err
		}
		one.key, one.mark = key, legacy.MarkKey(key)
	}
	return all, nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
