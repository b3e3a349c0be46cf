package skewverb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

// errRefuse is the error of a fleet next to which no lease of a getsetlock
// client is short enough.
var errRefuse = errors.New("getsetlock clients refuse")

// shareFleet sets the number of getsetlock clients: half of the fleet where old
// clients take part, else all of it.
func (a *skewAnswer) shareFleet(s *simulate.Fleet, protocol string, spread time.Duration) error {
	o := simulate.Ours{Clients: a.clients, RetryEvery: a.poll}
	switch protocol {
	case "verbatim":
		return nil
	case "modern":
		o.Phase, o.TTL = skew.PhaseClean, a.law.Lease
		s.Clients, s.Ours = 0, o
		return nil
	case "sealed":
		o.Phase, s.Clients = skew.PhaseSealed, 0
		spread = 0 // no old client's clock counts any more
	case "dual":
		o.Phase, o.Clients, s.Clients = skew.PhaseDual, a.clients/2, a.clients-a.clients/2
	default:
		o.Phase, o.Clients, s.Clients = skew.PhaseObserve, a.clients/2, a.clients-a.clients/2
	}
	o.Terms = dialect.Terms{Lease: s.Lease, Spread: spread, Gap: a.delay, Behind: a.behind, Ahead: a.ahead}
	if a.unkept {
		o.Terms = dialect.Terms{Lease: s.Lease, Behind: a.behind, Ahead: a.ahead}
	}
	terms, err := a.dialect.Terms(o.Terms)
	if err != nil {
		return errRefuse
	}
	o.TTL = terms.DefaultTTL()
	if longest, bound := a.dialect.LongestLease(terms); bound {
		o.TTL = min(o.TTL, longest)
	}
	settle := time.Duration(0)
	if a.dialect.HasTakeover() {
		settle = terms.Settle()
	}
	if dialect.CheckTimes(o.TTL, settle, terms.DefaultMargin(o.TTL), dialect.DefaultRenewal(o.TTL)) != nil {
		return errRefuse
	}
	s.Ours = o
	return nil
}

// curve has a protocol's rates for each clock spread. A nil rate marks a spread
// at which getsetlock clients refuse.
type curve struct {
	protocol string
	rates    []*simulate.Rates
}

// curveProtocols are the protocols of the page's curves, and their names there.
var curveProtocols = []struct{ protocol, name string }{
	{"verbatim", "old clients alone"}, {"observe", "half hardened (observe)"}, {"dual", "half dual"},
	{"sealed", "all sealed"}, {"modern", "all modern"},
}

// simulateSpreads simulates the fleet with other clock spreads, once for each
// protocol.
func (a *skewAnswer) simulateSpreads(e *out.Env, ctx context.Context, quiet bool) error {
	all := a.spreads()
	bar := e.Progress(quiet, "simulating spreads", int64(len(all)*len(curveProtocols)))
	defer bar.End()
	for n, p := range curveProtocols {
		c := curve{protocol: p.protocol}
		for i, spread := range all {
			var r *simulate.Rates
			var err error
			if i > 0 && (p.protocol == "sealed" || p.protocol == "modern") {
				r = c.rates[0] // these clients do not depend on clocks, so one spread stands for all
			} else if r, err = a.simulatePoint(ctx, p.protocol, spread); err != nil {
				return err
			}
			c.rates = append(c.rates, r)
			bar.Set(int64(n*len(all) + i + 1))
		}
		a.curves = append(a.curves, c)
	}
	return nil
}

// simulatePoint returns nil without an error where getsetlock clients refuse.
func (a *skewAnswer) simulatePoint(ctx context.Context, protocol string,
	spread time.Duration) (*simulate.Rates, error) {
	kept := *a
	kept.unkept = false // a curve ends where getsetlock clients refuse
	s, err := kept.simulation(protocol, dialect.Claim(spread))
	if errors.Is(err, errRefuse) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.Acquisitions = pointAcquisitions
	if a.preset != nil {
		s.Clocks.Pauses = a.preset.Clocks.Pauses
	}
	rates, err := runSimulation(ctx, s, pointEvents, func(float64) {})
	return &rates, err
}

// beside returns the number of acquisitions made while a holder could know that
// it held the lock. It leaves out getsetlock clients whose machine paused
// beyond the lease: they could not know.
func beside(r simulate.Rates) int64 { return r.Entries - r.Ours.BesideStopped }

// overlapped returns the share of these acquisitions.
func overlapped(r simulate.Rates) float64 {
	if r.Acquisitions == 0 {
		return 0
	}
	return float64(beside(r)) / float64(r.Acquisitions)
}

// playedBy says which clients took part in the simulation.
func (a *skewAnswer) playedBy() string {
	switch old, ours := a.played.Clients, a.played.Ours.Clients; {
	case ours == 0:
		return strconv.Itoa(old)
	case old == 0:
		return fmt.Sprintf("%d getsetlock clients", ours)
	default:
		return fmt.Sprintf("%d old clients, %d getsetlock clients", old, ours)
	}
}

// seen says how often two clients held at once, in a sentence or two.
func (a *skewAnswer) seen() string {
	r := a.rates
	fleet := a.playedBy() + ", whose jobs would fill half of the time"
	if a.played.Ours.Clients == 0 {
		fleet = fmt.Sprintf("%d clients whose jobs would fill half of the time", a.clients)
	}
	if value(a.delay) > 0 {
		fleet += ", without pauses of --delay"
	}
	text := fmt.Sprintf("Simulated: %s; %s of %d acquisitions in %s came while another client held the lock, in %d episodes of up to %s, with up to %d holders at once.",
		fleet, percent(overlapped(*r)), r.Acquisitions, long(r.Span), r.Episodes, out.Short(r.LongestEpisode),
		r.MostHolders)
	if beside(*r) == 0 {
		text = fmt.Sprintf(
			"Simulated: %s; none of %d acquisitions in %s came while another client held the lock.", fleet,
			r.Acquisitions, long(r.Span))
		if a.verdict.Possible {
			text += " It can still happen, by rarer events than this run met."
		}
	}
	if a.unkept {
		text += " Here the getsetlock clients do not know the spread and the delay; otherwise they would refuse to take part."
	}
	if a.played.Ours.Clients > 0 {
		text += " " + a.seenLost()
	}
	return text
}

// seenLost says how many leases of getsetlock clients were lost, and why.
func (a *skewAnswer) seenLost() string {
	o := a.rates.Ours
	if o.Lost.Total() == 0 {
		return fmt.Sprintf("None of %d leases of getsetlock clients was lost.", o.Acquisitions)
	}
	var by []string
	for _, c := range lossCounts(o.Lost) {
		if c.n > 0 {
			by = append(by, fmt.Sprintf("%d by %s", c.n, c.says))
		}
	}
	text := fmt.Sprintf("Of %d leases of getsetlock clients %d were lost: %s.", o.Acquisitions,
		o.Lost.Total(), strings.Join(by, ", "))
	if o.BesideStopped > 0 {
		text += fmt.Sprintf(" In %d cases another client began while the holder's machine was paused; only fencing numbers keep out what the paused holder had under way.", o.BesideStopped)
	}
	return text
}

type lossCount struct {
	field, says string
	n           int64
}

func lossCounts(l simulate.Losses) []lossCount {
	return []lossCount{
		{"pause", "a GETSET after a pause longer than the gap", l.Pause},
		{"overrun", "an overrun client's DEL", l.Overrun},
		{"missing", "a GETSET after a missing key", l.Missing},
		{"race", "a loser's GETSET within the gap", l.Race},
		{"clock", "a clock that is ahead", l.Clock},
		{"expire", "an EXPIRE", l.Expire},
		{"own", "a pause of the holder's own machine", l.Own},
	}
}

func (a *skewAnswer) rowsOfOurs() [][]string {
	if a.played.Ours.Clients == 0 {
		return nil
	}
	o := a.rates.Ours
	rows := [][]string{{"getsetlock clients' leases", strconv.FormatInt(o.Acquisitions, 10)},
		{"of these lost", strconv.FormatInt(o.Lost.Total(), 10)}}
	for _, c := range lossCounts(o.Lost) {
		rows = append(rows, []string{"lost by " + c.says, strconv.FormatInt(c.n, 10)})
	}
	return append(rows,
		[]string{"lost before the caller held them", strconv.FormatInt(o.Retried.Total(), 10)},
		[]string{"two getsetlock clients at once", strconv.FormatInt(o.BesideOurs, 10)},
		[]string{"a getsetlock and an old client at once", strconv.FormatInt(o.BesideOld, 10)},
		[]string{"while the holder's machine was paused", strconv.FormatInt(o.BesideStopped, 10)})
}

// simOurs is the field ours of the document's simulation.
type simOurs struct {
	Clients       int              `json:"clients"`
	TTLMS         json.Number      `json:"ttl_ms"`
	Acquisitions  int64            `json:"acquisitions"`
	Takeovers     int64            `json:"takeovers"`
	Lost          int64            `json:"lost"`
	LostBy        map[string]int64 `json:"lost_by"`
	Retried       int64            `json:"retried"` // lost before the caller learned that it held the lock
	BesideOurs    int64            `json:"beside_ours"`
	BesideOld     int64            `json:"beside_old"`
	BesideStopped int64            `json:"beside_stopped"`
	WaitP50MS     *json.Number     `json:"wait_p50_ms"`
	WaitP99MS     *json.Number     `json:"wait_p99_ms"`
}

func (a *skewAnswer) simOurs() *simOurs {
	if a.played.Ours.Clients == 0 {
		return nil
	}
	o := a.rates.Ours
	doc := &simOurs{
		Clients: a.played.Ours.Clients, TTLMS: out.Millis(a.played.Ours.TTL), Acquisitions: o.Acquisitions,
		Takeovers: o.Takeovers,
		Lost:      o.Lost.Total(), LostBy: map[string]int64{}, Retried: o.Retried.Total(),
		BesideOurs: o.BesideOurs, BesideOld: o.BesideOld, BesideStopped: o.BesideStopped,
	}
	for _, c := range lossCounts(o.Lost) {
		doc.LostBy[c.field] = c.n
	}
	if o.Acquisitions > 0 {
		doc.WaitP50MS, doc.WaitP99MS = new(out.Millis(o.WaitP50)), new(out.Millis(o.WaitP99))
	}
	return doc
}
