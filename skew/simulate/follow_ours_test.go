package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/seeds"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// The same for getsetlock clients alongside old ones, in each phase: attempts,
// looks, settles, renewals, losses and releases, on both keys. Their leases
// break the lease rule and jobs break the law, so that many leases are lost.
func TestExplorerAllowsEachEventOfGetsetlock(t *testing.T) {
	for _, d := range followedDialects() {
		if d.NeverReleases() {
			continue // the machine does not have what a release leaves for "done" (rule 10)
		}
		t.Run(d.Name, func(t *testing.T) {
			takeovers, losses := 0, 0
			for _, first := range seeds.With(t, 0) {
				for n := range uint64(runs(60)) {
					f := followOurs(t, d, first+n, nil)
					takeovers, losses = takeovers+f.takeovers, losses+f.losses
					if t.Failed() {
						t.Fatalf("seed %d", first+n)
					}
				}
			}
			if takeovers == 0 && d.HasTakeover() {
				t.Error("no key was taken over, so little was compared")
			}
			if losses == 0 {
				t.Error("no getsetlock client lost its lease, so little was compared")
			}
		})
	}
}

// An old client's EXPIRE may reach the server after a getsetlock client took
// the key and before the look that ends its settle. Then trust ends with the
// PTTL that the look read (rule 9). Few histories have that, so these fleets
// provoke it. An old client's job ends soon after the TTL of its key. Its DEL
// deletes the key of the next old client, whose EXPIRE is still to come.
func TestExplorerAllowsTrustCutByExpire(t *testing.T) {
	for _, d := range followedDialects() {
		if ttl := d.KeyTTL; d.NeverReleases() || !d.HasTakeover() || ttl != dialect.TTLAfterSetnx &&
			ttl != dialect.TTLWinExpire {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			cuts := 0
			for _, first := range seeds.With(t, 0) {
				for n := range uint64(30) {
					f := followOurs(t, d, first+n, func(s *Fleet, random *rand.Rand) {
						tick := s.Lease / followLease
						s.Clients, s.Rest, s.Poll, s.CrashShare = 3, Constant(0), tick, 0
						s.Job = Constant(s.Lease + tick*time.Duration(random.IntN(3)-1))
						s.Ours.Phase, s.Ours.SettleAlways, s.Ours.RenewEvery = skew.PhaseDual, true, 40*tick
					})
					cuts += f.cuts
					if t.Failed() {
						t.Fatalf("seed %d", first+n)
					}
				}
			}
			if cuts == 0 {
				t.Error("no EXPIRE shortened a getsetlock client's trust, so nothing was compared")
			}
		})
	}
}

// A renewal reaches the server in the instant in which trust ends. Trust ends
// first, as in the machine, and the renewal is dropped.
func TestTrustEndsBeforeRenewalOfThatInstant(t *testing.T) {
	const tick, ttl, margin = time.Millisecond, 10, 1
	d := dialect.Jedis()
	f := followFleet(t, Fleet{
		Dialect: d, Lease: followLease * tick, Job: Constant(25 * tick), Rest: Constant(3 * tick),
		Latency: Constant(tick), Poll: tick, Acquisitions: 3, For: 400 * tick,
		Ours: Ours{
			Clients: 1, Phase: skew.PhaseDual, TTL: ttl * tick, Margin: margin * tick,
			Terms:      dialect.Terms{Lease: followLease * tick, Spread: dialect.Zero, Gap: tick},
			RenewEvery: (ttl - margin - 1) * tick, // and another tick on its way
			RetryEvery: tick, Settle: tick, TakeoverMargin: tick, AnyLease: true,
		},
	}, tick, false, skew.Scenario{
		Dialect: d, Lease: followLease, Gap: followGap, Reply: followGap,
		Ours: skew.Ours{Clients: 1, Phase: skew.PhaseDual, TTL: ttl, Margin: margin, Settle: 1, Stop: 2,
			TakeoverMargin: 1, Late: true, Deaf: true},
	})
	if f.losses == 0 {
		t.Error("no lease was lost, so no renewal came too late")
	}
}

var followedPhases = []skew.Phase{skew.PhaseObserve, skew.PhaseDual, skew.PhaseSealed, skew.PhaseModern,
	skew.PhaseClean}

// followOurs walks the machine along one simulation with getsetlock clients.
// Either both know how far the slowest clock is behind the server's, or there
// is only one: the machine has no looks of several machines at a time. If shape
// is not nil, it changes the drawn fleet.
func followOurs(t *testing.T, d dialect.Dialect, seed uint64, shape func(*Fleet, *rand.Rand)) *follower {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0x0fa11))
	tick := max(d.Unit.Step(), time.Millisecond)
	ticks := func(low, high int) time.Duration { return tick * time.Duration(low+random.IntN(high-low+1)) }
	way := tick * time.Duration(1+random.IntN(9)) / 10
	ttl, settle, stop := 10+random.IntN(4), 1+random.IntN(3), random.IntN(3)
	phase, every := followedPhases[seed%uint64(len(followedPhases))], random.IntN(2) == 0
	fleet := Fleet{
		Dialect: d, Clients: 2, Lease: followLease * tick, Job: Constant(ticks(1, 12)),
		Rest:    Constant(ticks(0, 3)),
		Latency: Constant(way), Poll: ticks(1, 2), CrashShare: 0.2, Restart: Constant(ticks(1, 4)),
		Acquisitions: 60, For: 4000 * tick, Seed: seed,
		Ours: Ours{
			Clients: 1, Phase: phase, Job: Constant(ticks(1, 25)),
			Terms: dialect.Terms{Lease: followLease * tick, Spread: dialect.Zero, Gap: tick},
			TTL:   time.Duration(ttl) * tick, Margin: tick, RenewEvery: 2 * tick, RetryEvery: tick,
			Settle: time.Duration(settle) * tick, SettleAlways: every, TakeoverMargin: 2 * followApart * tick,
			Stop: time.Duration(stop) * tick, AnyLease: true,
		},
	}
	if d.KeyTTL == dialect.TTLEverybody {
		fleet.Poll = ticks(2*followLease, 3*followLease) // otherwise the waiters keep the key for ever
	}
	if random.IntN(3) == 0 {
		fleet.Ours.RenewEvery = 40 * tick // so that trust runs out
	}
	if shape != nil {
		shape(&fleet, random)
	}
	known := random.IntN(2) == 0
	if known {
		fleet.Ours.Clients, fleet.Ours.Terms.Behind = 2, followApart*tick
	}
	if fleet.Ours.Phase == skew.PhaseClean {
		fleet.Clients = 0
	}
	for range fleet.Clients {
		fleet.Offsets = append(fleet.Offsets, ticks(0, 2*followApart)-followApart*tick)
	}
	return followFleet(t, fleet, way, random.IntN(3) == 0, skew.Scenario{
		Dialect: d, Old: fleet.Clients, Lease: followLease, Gap: followGap, Reply: followGap,
		Behind: followApart, Ahead: followApart, Overrun: true,
		Ours: skew.Ours{
			Clients: fleet.Ours.Clients, Phase: fleet.Ours.Phase, TTL: ttl, Margin: 1, Settle: settle,
			SettleAlways: fleet.Ours.SettleAlways,
			// In the machine, a renewal that fails and the client learning of
			// it are one event.
			Stop:           stop + 2,
			TakeoverMargin: 2 * followApart, Known: known, Late: true, Deaf: true,
			NoTombstone: random.IntN(3) > 0, // otherwise old clients never enter in sealed and modern
		},
	})
}

// member returns what a getsetlock client has besides its simClient, and the
// remembered look. For old clients both are zero.
func (f *follower) member(m *Simulator, name int32) (simMember, simLook) {
	if !m.isOurs(name) {
		return simMember{}, simLook{}
	}
	return *m.member(name), m.looks
}

// ourWords returns the machine's events for one event of a getsetlock client.
func (f *follower) ourWords(m *Simulator, was simClient, before simMember, look simLook) []followed {
	is, g := &m.clients[was.name], m.member(was.name)
	at := func(at int64, what string) followed {
		return followed{at: at - simulationStart, client: was.name, what: what}
	}
	won := map[bool]string{true: "won", false: "lost"}
	switch was.pc {
	case simOurTry:
		e := f.onServer(m, was.name, "acquire", "held")
		switch {
		case is.pc == simOurWon && g.took:
			e.result = "takeover"
		case is.pc == simOurWon:
			e.result = "won"
		case m.looks != look:
			e.result = "noted"
		case look.there:
			needed, _ := m.Ours.Terms.LookAge(m.Dialect)
			e.short = int64(needed) - (m.now - look.elapsed) + 1
		}
		return []followed{at(before.sent, "send"), e}
	case simOurWon:
		return []followed{at(m.now, "answer")}
	case simOurCheck:
		if g.trust < before.trust {
			f.cuts++
		}
		return []followed{f.onServer(m, was.name, "check", won[f.passed(*is, g)])}
	case simOurChecked:
		if f.passed(was, &before) && is.pc == simOurRelease { // trust ended while the reply was on its way
			return []followed{at(m.now, "stop")}
		}
	case simOurRelease:
		return []followed{f.onServer(m, was.name, "release", "")}
	case simOurHolds:
		// the machine's client knows that since the renewal ran
		heard := before.reply != never && !before.renewed
		switch {
		case before.turn == m.now && g.reply != never: // otherwise trust has ended in this instant
			e := f.onServer(m, was.name, "renewed", won[g.renewed])
			e.deaf = g.renewed && g.reply >= g.trust
			return []followed{e}
		case is.pc == simOurRelease:
			return []followed{at(m.now, "stop")}
		case is.pc == simBack:
			return []followed{at(m.now, "crash")}
		case before.stop == never && g.stop != never && !heard:
			return []followed{at(m.now, "lost")}
		case before.turn == never && g.turn != never:
			return []followed{at(m.now, "renew")}
		}
	}
	return nil
}

// passed reports whether a settle's look, whose reply is on its way or has just
// arrived, found the mark before trust ended. The machine's client has the
// reply at once.
func (f *follower) passed(c simClient, g *simMember) bool {
	return g.stands && c.next-f.way < g.trust
}

// ourSteps returns the getsetlock clients' steps in the machine's words; empty
// where an attempt is on its way or about to be.
func (f *follower) ourSteps(m *Simulator) []string {
	var all []string
	for i := range m.members {
		c, g := &m.clients[m.Fleet.Clients+i], &m.members[i]
		step := map[simPC]string{simOurWon: "answer", simOurCheck: "settle", simOurRelease: "stopped",
			simBack: "idle"}[c.pc]
		switch {
		case c.pc == simOurChecked && f.passed(*c, g), c.pc == simOurHolds:
			step = "holds"
		case c.pc == simOurChecked:
			step = "stopped"
		}
		if c.pc == simOurHolds && (g.stop != never || g.reply != never && !g.renewed) {
			step = "lost"
		}
		all = append(all, step)
	}
	return all
}

// sameOurs compares M and the getsetlock clients.
func (f *follower) sameOurs(e followed, world skew.World) string {
	there := e.token.owner >= 0 && e.token.expires > e.at+simulationStart
	switch {
	case there != (world.M.Kind != ""):
		return fmt.Sprintf("the simulator's M is there: %v, the machine's is %+v", there, world.M)
	case there && f.left(e.token.expires) != world.M.Left:
		return fmt.Sprintf("the simulator's M lasts %d ticks, the machine's is %+v", f.left(e.token.expires),
			world.M)
	}
	if who := fmt.Sprintf("ours%d", int(e.token.owner)-f.old+1); there && world.M.Who != who &&
		world.M.Who != "stranger" {
		return fmt.Sprintf("the simulator's M is that of %s, the machine's is %+v", who, world.M)
	}
	for i, step := range e.ours {
		if step != "" && step != world.Ours[i].Step {
			return fmt.Sprintf("ours%d %s in the simulator, in the machine it %s", i+1, step,
				world.Ours[i].Step)
		}
	}
	return ""
}
