// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// The simulation's limits. It ends with whichever comes first. The events are
// the limit where few acquisitions succeed, as with long jobs and short polls.
const (
	simAcquisitions = 200_000
	// simSpan bounds the time of a fleet in which no client ever succeeds.
	simSpan = 3652 * 24 * time.Hour
)

// Tests, which simulate often, use fewer events.
var simEvents = 10_000_000

// errSimulation is the error of a fleet that cannot be simulated.
var errSimulation = errors.New("simulation")

// simulation returns the question's fleet of old clients. The clocks are spread
// evenly. Clients rest between jobs so long that their jobs together
// would fill half of the time. With shorter rests, the client that releases
// would be first again, and one overrun would begin an endless chain.
func (a *skewAnswer) simulation() (simulate.Fleet, error) {
	s := simulate.Fleet{
		Dialect: a.dialect, Clients: a.clients, Lease: a.law.Lease, Poll: a.poll,
		Acquisitions: simAcquisitions, For: simSpan, Seed: a.seed,
		Job: a.job.Distribution, Latency: a.latency.Distribution,
	}
	var err error
	if a.holds != nil {
		s.Job, err = simulate.ListOf("job", a.holds)
	}
	if err == nil {
		rest := max(time.Millisecond, 2*time.Duration(a.clients)*a.meanJob())
		s.Rest, err = simulate.ParseDistribution("job", "exp:"+min(rest, longestRest).String())
	}
	for n := range s.Clients {
		s.Offsets = append(s.Offsets, value(a.spread)*time.Duration(n)/time.Duration(s.Clients-1))
	}
	return s, err
}

// longestRest keeps the rests of large fleets within what a distribution can
// hold.
const longestRest = 365 * 24 * time.Hour

func (a *skewAnswer) meanJob() time.Duration {
	sum := 0.0
	for _, j := range a.jobs {
		sum += float64(j)
	}
	return time.Duration(sum / float64(len(a.jobs)))
}

// simulate simulates the old clients, if they take the lock in this protocol.
func (a *skewAnswer) simulate(e *out.Env, ctx context.Context, quiet bool) error {
	if !a.oldHold() {
		return nil
	}
	s, err := a.simulation()
	if err != nil {
		return err
	}
	if a.preset != nil {
		// The law considers one day of such clocks; the simulation plays one
		// such day after the other.
		s.Clocks, s.Offsets, s.SetEvery = a.preset.Clocks, nil, presetSpan
	}
	bar := e.Progress(quiet, "simulating", 100)
	defer bar.End()
	rates, err := runSimulation(ctx, s, simEvents, func(done float64) { bar.Set(int64(100 * done)) })
	if err == nil {
		a.rates = &rates
		a.blameWhatIsSeen()
	}
	return err
}

// runSimulation bounds events and not time, so that a seed has the same result
// on every machine.
func runSimulation(ctx context.Context, s simulate.Fleet, events int,
	tell func(done float64)) (simulate.Rates, error) {
	m, err := simulate.New(s)
	if err != nil {
		return simulate.Rates{}, fmt.Errorf("%w: %w", errSimulation, err)
	}
	const slice = 1 << 16
	for n := 0; n < events && m.Run(slice); n += slice {
		tell(max(m.Done(), float64(n)/float64(events)))
		if cause := context.Cause(ctx); cause != nil {
			return simulate.Rates{}, out.CouldNot(cause, "simulating")
		}
	}
	return m.Rates(), nil
}

// overlapped returns the share of acquisitions made while another client held.
func overlapped(r simulate.Rates) float64 {
	if r.Acquisitions == 0 {
		return 0
	}
	return float64(r.Entries) / float64(r.Acquisitions)
}

// seen says how often two clients held at once, in a sentence or two.
func (a *skewAnswer) seen() string {
	r := a.rates
	fleet := fmt.Sprintf("%d clients whose jobs would fill half of the time", a.clients)
	if a.ours() {
		fleet = fmt.Sprintf("%d old clients alone, whose jobs would fill half of the time", a.clients)
	}
	if value(a.delay) > 0 {
		fleet += ", without pauses of --delay"
	}
	text := fmt.Sprintf("Simulated: %s; %s of %d acquisitions in %s came while another client held the lock, in %d episodes of up to %s, with up to %d holders at once.",
		fleet, percent(overlapped(*r)), r.Acquisitions, long(r.Span), r.Episodes, out.Short(r.LongestEpisode),
		r.MostHolders)
	if r.Entries == 0 {
		text = fmt.Sprintf(
			"Simulated: %s; none of %d acquisitions in %s came while another client held the lock.", fleet,
			r.Acquisitions, long(r.Span))
		if a.verdict.Possible {
			text += " It can still happen, by rarer events than this run met."
		}
	}
	return text
}

// rehearses says what shows how often it happens with getsetlock clients.
func (a *skewAnswer) rehearses() string {
	protocol := map[string]string{"dual": "dual", "sealed": "dual", "modern": "modern"}[a.protocol]
	if protocol == "" {
		protocol = "legacy"
	}
	return "getsetlock clients are not simulated: getsetlock rehearse --preset NAME --protocol " + protocol +
		" lets the real ones work under wrong clocks."
}

// long returns a span in days, or to the second below two days.
func long(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Second).String()
	}
	return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
}

// simRows returns the simulation's numbers.
func (a *skewAnswer) simRows() [][]string {
	r := a.rates
	wait := func(d time.Duration) string {
		if r.Acquisitions == 0 {
			return "-"
		}
		return out.Within(float64(d) / float64(time.Millisecond)).String()
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return [][]string{
		{"clients", strconv.Itoa(a.clients)},
		{"time simulated", long(r.Span)},
		{"acquisitions", count(r.Acquisitions)},
		{"made while another held", count(r.Entries)},
		{"episodes", count(r.Episodes)},
		{"by skew, job, jump, protocol",
			fmt.Sprintf("%d, %d, %d, %d", r.Causes.Skew, r.Causes.Job, r.Causes.Jump, r.Causes.Protocol)},
		{"longest episode", out.Short(r.LongestEpisode)},
		{"most holders at once", strconv.Itoa(r.MostHolders)},
		{"longest chain", count(r.LongestChain)},
		{"wait p50", wait(r.WaitP50)},
		{"wait p99", wait(r.WaitP99)},
		{"gave up waiting", count(r.GaveUp)},
		{"nobody held, all waited", out.Within(float64(r.Blocked) / float64(time.Millisecond)).String()},
	}
}

// simDocument is the field simulation of the document.
type simDocument struct {
	Clients int `json:"clients"` // number of simulated clients
	simulate.Rates
}

func (a *skewAnswer) simDocument() *simDocument {
	if a.rates == nil {
		return nil
	}
	doc := &simDocument{a.clients, *a.rates}
	if doc.Acquisitions == 0 {
		doc.WaitP50, doc.WaitP99 = out.NoBound, out.NoBound
	}
	return doc
}
