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

// errRefuse: no lease of ours is short enough beside the fleet, so they take no part in one.
var errRefuse = errors.New("ours refuse")

// shareFleet gives ours their part: half of the fleet beside old clients, all of it where those are
// kept waiting or not there.
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

// curve is a protocol's rates against the spread of clocks. A nil one stands where ours refuse.
type curve struct {
	protocol string
	rates    []*simulate.Rates
}

// curveProtocols are those of the page, and what it calls them.
var curveProtocols = []struct{ protocol, name string }{
	{"verbatim", "old clients alone"}, {"observe", "half of them hardened (observe)"}, {"dual", "half of them dual"},
	{"sealed", "all of them sealed"}, {"modern", "all of them modern"},
}

// simulateSpreads plays the fleet with other spreads of its clocks, once by each protocol.
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
				r = c.rates[0] // no clock of theirs is compared with another
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

// simulatePoint is nil without an error where ours refuse.
func (a *skewAnswer) simulatePoint(ctx context.Context, protocol string, spread time.Duration) (*simulate.Rates, error) {
	kept := *a
	kept.unkept = false // a curve ends where ours refuse
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

// beside is how many acquisitions were made beside a holder that could know that it held. One of ours
// whose machine stood still beyond its lease could not.
func beside(r simulate.Rates) int64 { return r.Entries - r.Ours.BesideStopped }

// overlapped is their share.
func overlapped(r simulate.Rates) float64 {
	if r.Acquisitions == 0 {
		return 0
	}
	return float64(beside(r)) / float64(r.Acquisitions)
}

// playedBy says who took part in the simulation.
func (a *skewAnswer) playedBy() string {
	switch old, ours := a.played.Clients, a.played.Ours.Clients; {
	case ours == 0:
		return strconv.Itoa(old)
	case old == 0:
		return fmt.Sprintf("%d of ours", ours)
	default:
		return fmt.Sprintf("%d old, %d of ours", old, ours)
	}
}

// seen is how often it happened, in a sentence or two.
func (a *skewAnswer) seen() string {
	r := a.rates
	fleet := a.playedBy() + ", whose jobs would fill half of the time"
	if a.played.Ours.Clients == 0 {
		fleet = fmt.Sprintf("%d clients whose jobs would fill half of the time", a.clients)
	}
	if value(a.delay) > 0 {
		fleet += ", without pauses of --delay"
	}
	text := fmt.Sprintf("Simulated: %s; %s of %d acquisitions in %s were made beside a holder, in %d episodes of up to %s, with up to %d holders at once.",
		fleet, percent(overlapped(*r)), r.Acquisitions, long(r.Span), r.Episodes, out.Short(r.LongestEpisode), r.MostHolders)
	if beside(*r) == 0 {
		text = fmt.Sprintf("Simulated: %s; none of %d acquisitions in %s was made beside a holder.", fleet, r.Acquisitions, long(r.Span))
		if a.verdict.Possible {
			text += " It takes rarer things than this run met, which does not keep it from happening."
		}
	}
	if a.unkept {
		text += " Ours know neither spread nor delay here; told of them they would refuse to take part."
	}
	if a.played.Ours.Clients > 0 {
		text += " " + a.seenLost()
	}
	return text
}

// seenLost is how many leases of ours were told lost, and by what.
func (a *skewAnswer) seenLost() string {
	o := a.rates.Ours
	if o.Lost.Total() == 0 {
		return fmt.Sprintf("None of %d leases of ours was lost.", o.Acquisitions)
	}
	var by []string
	for _, c := range lossCounts(o.Lost) {
		if c.n > 0 {
			by = append(by, fmt.Sprintf("%d by %s", c.n, c.says))
		}
	}
	text := fmt.Sprintf("Of %d leases of ours %d were told lost: %s.", o.Acquisitions, o.Lost.Total(), strings.Join(by, ", "))
	if o.BesideStopped > 0 {
		text += fmt.Sprintf(" In %d of them another began while the machine stood still; only fencing keeps out what such a one had under way.", o.BesideStopped)
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
		{"own", "a stop of our own machine", l.Own},
	}
}

func (a *skewAnswer) rowsOfOurs() [][]string {
	if a.played.Ours.Clients == 0 {
		return nil
	}
	o := a.rates.Ours
	rows := [][]string{{"leases of ours", strconv.FormatInt(o.Acquisitions, 10)}, {"told lost", strconv.FormatInt(o.Lost.Total(), 10)}}
	for _, c := range lossCounts(o.Lost) {
		rows = append(rows, []string{"lost by " + c.says, strconv.FormatInt(c.n, 10)})
	}
	return append(rows,
		[]string{"lost before anybody was told held", strconv.FormatInt(o.Retried.Total(), 10)},
		[]string{"two of ours at once", strconv.FormatInt(o.BesideOurs, 10)},
		[]string{"ours beside an old one", strconv.FormatInt(o.BesideOld, 10)},
		[]string{"beside a machine that stood still", strconv.FormatInt(o.BesideStopped, 10)})
}

// simOurs is the ours field of the document's simulation.
type simOurs struct {
	Clients       int              `json:"clients"`
	TTLMS         json.Number      `json:"ttl_ms"`
	Acquisitions  int64            `json:"acquisitions"`
	Takeovers     int64            `json:"takeovers"`
	Lost          int64            `json:"lost"`
	LostBy        map[string]int64 `json:"lost_by"`
	Retried       int64            `json:"retried"` // lost before anybody was told held
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
		Clients: a.played.Ours.Clients, TTLMS: out.Millis(a.played.Ours.TTL), Acquisitions: o.Acquisitions, Takeovers: o.Takeovers,
		Lost: o.Lost.Total(), LostBy: map[string]int64{}, Retried: o.Retried.Total(),
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
