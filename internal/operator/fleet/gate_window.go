// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// watchFresh is the greatest age of a watcher's last look at which the watcher
// still counts as running.
const watchFresh = 15 * time.Second

// windowFor returns how long no attempt of an old client must have been seen
// before old clients are shut out. For that long an old client can hold a lock,
// or be about to write one, while nothing of it is seen.
func windowFor(f migrate.Fleet) time.Duration { return f.Greatest.Time + f.Job.Time + f.Spread.Time }

// asksIdle reports the steps whose window must also be as long as old clients
// pause. A window by windowFor says that no old client is in an attempt. It
// does not say whether an old client returns tomorrow night: in Sealed that
// client would be shut out, and in Clean nothing would keep it out.
func asksIdle(to migrate.Phase) bool { return to == migrate.Sealed || to == migrate.Clean }

// idle returns the longest pause between two attempts of an old client, as it
// is claimed; zero where it is unknown. What was seen proves nothing of clients
// that pause for longer, and contradicts a shorter claim.
func (f *facts) idle() time.Duration {
	fleet := f.fleet()
	return fleet.Idle.Time
}

// windowTo returns how long the window before a step to a phase must be, and in
// words how that is computed.
func (f *facts) windowTo(to migrate.Phase, fleet migrate.Fleet) (need time.Duration, formula string) {
	need = windowFor(fleet)
	formula = fmt.Sprintf("greatest lease %s + longest job %s + spread %s", timeWords(fleet.Greatest),
		timeWords(fleet.Job), timeWords(fleet.Spread))
	if idle := fleet.Idle; asksIdle(to) && idle.Time > need {
		return idle.Time, fmt.Sprintf("longest pause between two attempts of an old client %v", idle)
	}
	return need, formula
}

// timeWords is a claimed time in words.
func timeWords(k migrate.Known) string {
	if k.Source == migrate.Unknown {
		return "unknown"
	}
	return k.Time.String()
}

// askIdle blocks where the longest pause of an old client is unknown.
func (b *builder) askIdle() {
	seen := ""
	if p := b.sighting.Pause; p.Known() {
		seen = fmt.Sprintf("; %v was seen on a key, and a client that pauses for longer was not seen",
			p.Time.Round(time.Millisecond))
	}
	if b.idle() == 0 {
		b.block("idle", "the longest pause between two attempts of an old client is unknown: set --idle (24h where a job runs each night; the longest of all schedules counts)%s", seen)
	}
}

// window blocks until no old client has tried for a lock for long enough, by
// the lesser of the server's time and the watcher's own.
func (b *builder) window(to migrate.Phase) {
	fleet := b.fleet()
	need, formula := b.windowTo(to, fleet)
	if fleet.Job.Source == migrate.Unknown || fleet.Greatest.Source == migrate.Unknown {
		b.block("window", "how long to watch depends on the old clients' longest lease and job, which are unknown: set --lease and --job")
		return
	}
	if to == migrate.Clean && b.taken() {
		b.lastTouches(windowFor(fleet)) // a client that won before may still hold
		b.noPastStamps(fleet)
		b.stillSeen(windowFor(fleet))
		return
	}
	b.lastTouches(need)
	b.counted(need)
	if b.claims.Gone {
		b.stillSeen(windowFor(fleet))
		b.claim("window", "no old client runs any more, and none held a lock within %v (%s); %s", need,
			formula,
			b.lastValue())
		return
	}
	quiet, why := b.quiet(to)
	s := b.sighting
	blocks := len(b.gate.Blocks)
	defer func() { b.orRights(to, len(b.gate.Blocks) > blocks) }()
	if asksIdle(to) {
		b.askIdle()
	}
	switch {
	case b.unread != nil:
		b.block("window", "what was seen (%s) cannot be read: %v", record.SeenKey(b.namespace), b.unread)
	case s.Format == "":
		b.blockFor(need, "window",
			"no watcher runs: run getsetlock migrate status --watch --monitor for at least %v (%s)", need,
			formula)
	case b.now.Sub(s.Until) > watchFresh:
		b.blockFor(need, "window", "the watcher %s stopped %v ago, and a window with a hole begins anew: run status --watch --monitor for at least %v (%s)", s.Observer, b.now.Sub(s.Until).Round(time.Second), need, formula)
	case s.Until.Sub(b.now) > time.Second:
		b.blockFor(need, "window",
			"the last look lies %v ahead of the server's clock, which was set back: the window begins anew", s.Until.Sub(b.now).Round(time.Millisecond))
	case why != "":
		b.noWindow(need, formula, why)
	case quiet < need:
		b.blockFor(need-quiet, "window",
			"MONITOR shows no attempt of an old client for %v; it must be %v (%s), so %v are left%s",
			quiet.Round(time.Millisecond), need, formula, (need - quiet).Round(time.Millisecond), s.cutBy())
	case b.now.Sub(s.QuietUntil) > watchFresh:
		b.blockFor(watchFresh, "window", "the watcher runs, and MONITOR has proved nothing for %v: lines come late, or not at all; the window ends there%s", b.now.Sub(s.QuietUntil).Round(time.Second), s.cutBy())
	default:
		b.everSeen()
		b.noteAt(s.QuietUntil.Add(-quiet), "window",
			"MONITOR shows no attempt of an old client for %v; needed are %v (%s)",
			quiet.Round(time.Millisecond), need, formula)
	}
}

// lastValue says when a watcher saw a value of an old client last, on which a
// claim that none runs rests alone where MONITOR saw no attempts.
func (b *builder) lastValue() string {
	t := b.sighting.LastWrite
	for _, k := range b.sighting.Keys {
		t = later(t, k.LastWrite)
	}
	if t == nil {
		return "no watcher saw a value of one"
	}
	return "the last value of one that a watcher saw is of " + dated(t.At)
}

// noWindow closes the gate where MONITOR proves no window.
func (b *builder) noWindow(need time.Duration, formula, why string) {
	b.blockFor(need, "window",
		"nothing proves that no old client tries for a lock: %s; watch by getsetlock migrate status --watch --monitor for at least %v (%s), or say by --gone that no old client runs any more", why, need, formula)
}

// counted blocks for a call of SETNX or GETSET that the server counted within
// need, where MONITOR does not show whose it was. Counts prove no window: they
// name no client and no key, and old clients have other commands too.
func (b *builder) counted(need time.Duration) {
	s := b.sighting
	if b.dialect.Acquire != dialect.AcquireSetnx || !s.Counts || s.Missing == "" {
		return
	}
	if w := s.LastWrite; w != nil && w.At.Sub(s.From) > watchFresh && w.At.Sub(s.LastCalled) > watchFresh {
		b.noteAt(w.At, "counts", "an old client's value appeared on %q, and the server counted no SETNX or GETSET around then: that client may take locks by another command (SET NX, a script), of which the counts say nothing", w.Key)
	}
	if ago := b.now.Sub(s.LastCalled); !s.LastCalled.IsZero() && ago < need {
		b.blockFor(need-ago, "window", "the server counted a SETNX or GETSET at %s (INFO commandstats, which names no client and no key, and counts every database): an old client tried for a lock, or another program sent it; status --watch --monitor shows whose it was; where MONITOR is refused, stop that program for %v",
			dated(s.LastCalled), need)
	}
}

// orRights notes what opens the gate to Clean in place of a window.
func (b *builder) orRights(to migrate.Phase, closed bool) {
	if to == migrate.Clean && closed && len(b.rights) == 0 {
		b.note("rights", "in place of that window: %s for each user that old clients log in as and no getsetlock client does, then --refused USER; or stay in modern, which keeps old clients out of every key",
			aclLine("USER"))
	}
}

// quiet is the window that MONITOR proves. To Modern and Clean only the part
// within the recorded phase counts. why says why there is none.
func (b *builder) quiet(to migrate.Phase) (quiet time.Duration, why string) {
	s := b.sighting
	switch {
	case s.Missing == notAsked:
		return 0, "without MONITOR no attempt is seen, only the values that polls find"
	case s.Missing != "":
		return 0, "MONITOR: " + s.Missing
	case s.QuietUntil.IsZero() && s.Hole != nil:
		return 0, "MONITOR: " + s.Hole.Why
	case s.QuietUntil.IsZero():
		return 0, "the watcher has only just begun"
	case to > migrate.Sealed:
		return min(s.Quiet, max(0, s.QuietUntil.Sub(b.record.Since))), ""
	}
	return s.Quiet, ""
}

// notAsked is what a watch says of a source that its operator did not ask for.
const notAsked = "not asked for"

// everSeen notes whether the watch ever saw an old client. A marker proves that
// the watch sees this database and these names. It does not prove that old
// clients use them.
func (b *builder) everSeen() {
	s := b.sighting
	t := later(s.LastWrite, s.LastFailed)
	for _, k := range s.Keys {
		t = later(t, later(k.LastWrite, k.LastFailed))
	}
	if t != nil {
		b.noteAt(t.At, "seen", "an old client was seen here last%s (%s)", by(t.Who), t.What)
		return
	}
	b.note("seen", "no watcher has ever seen an old client here: make sure that old clients use this server, this database and this namespace, or the window says nothing of them")
}

// liveMargin is how far an old client's stamp may have passed by the server's
// clock while its holder still works: the spread, the claimed Behind, and what
// was seen of clocks, whichever is greatest. A client that is further behind
// and was never seen is not allowed for.
func (f *facts) liveMargin(fleet migrate.Fleet) time.Duration {
	behind, _, _ := f.sighting.clocks(fleet)
	return max(fleet.Spread.Time, fleet.Behind.Time, behind.Time, f.record.SawBehind)
}

// noLiveStamps blocks the steps that shut old clients out while a value of an
// old client stands that may be a held lock, whatever is claimed, and whatever
// counts or rights say: the client that wrote it took a lock.
func (b *builder) noLiveStamps() {
	if v := b.survey.Live; v.count > 0 {
		b.blockFor(b.survey.LiveFor, "live", "old clients' values on %v may be locks that are held now, so an old client took a lock a short while ago, whatever is claimed: stop it and wait until they have ended; if a value says no end, delete it once its client is gone", v)
	}
}

// noPastStamps blocks where no window was watched and a value of an old client
// stands whose time has passed by the server's clock. If that client's clock is
// behind by more than anybody stated, it may hold the lock.
func (b *builder) noPastStamps(fleet migrate.Fleet) {
	if v := b.survey.Past; v.count > 0 && unsaid(fleet.Behind) {
		b.block("live", "the time of old clients' values on %v has passed by the server's clock, and a client whose clock is behind may hold such a lock: say by --behind and --dialect how far clocks are behind at most, or let getsetlock doctor --fix delete what dead clients left", v)
	}
}

// stillSeen blocks where a claim stands in for a window, and MONITOR showed a
// call on a lock within need: a client in a form that the watch cannot name may
// take locks.
func (b *builder) stillSeen(need time.Duration) {
	t := later(b.sighting.LastWrite, b.sighting.LastFailed)
	if t == nil || b.now.Sub(t.At) >= need ||
		slices.ContainsFunc(b.gate.Blocks, func(f Finding) bool { return f.Rule == "old-clients" }) {
		return
	}
	left := need - b.now.Sub(t.At)
	b.blockFor(left, "old-clients", "%q was used%s %v ago (%s), by an old client or by another program, and you claim that no old client can: stop it, and wait for another %v",
		t.Key, by(t.Who), b.now.Sub(t.At).Round(time.Second), t.What, left.Round(time.Second))
}

// lastTouches names the last act of old clients on each key, and blocks for
// acts younger than need, whatever is claimed. Where need is 0 old clients may
// work, and their acts are evidence only.
func (b *builder) lastTouches(need time.Duration) {
	recent := 0
	for _, k := range b.sighting.Keys {
		for i, t := range []*Touch{k.LastWrite, k.LastFailed} {
			if t == nil {
				continue
			}
			what := []string{"last written", "last tried for without success"}[i]
			switch ago := b.now.Sub(t.At); {
			case need > 0 && ago < need && recent >= mostNames:
				recent++
			case need > 0 && ago < need:
				recent++
				b.blockFor(need-ago, "old-clients",
					"%q was %s by an old client%s %v ago (%s): stop it, and wait for another %v", k.Key, what,
					by(t.Who), ago.Round(time.Second), t.What, (need - ago).Round(time.Second))
			default:
				b.noteAt(t.At, "old-clients", "%q was %s by an old client%s (%s)", k.Key, what, by(t.Who),
					t.What)
			}
		}
	}
	if recent > mostNames {
		b.block("old-clients", "%d more such acts within %v", recent-mostNames, need)
	}
}
