package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
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

// idle returns the longest pause between two attempts of an old client: the
// claim, or a longer pause that was seen on a key. It is unknown without a
// claim: what was seen proves nothing of clients that pause for longer.
func (f *facts) idle() migrate.Known {
	claimed, seen := f.claims.Idle, f.sighting.Pause
	switch {
	case claimed == 0:
		return migrate.Known{}
	case proves(seen) && seen.Time > claimed:
		return measured(seen)
	}
	return migrate.Known{Time: claimed, Source: migrate.Claimed}
}

// windowTo returns how long the window before a step to a phase must be, and in
// words how that is computed.
func (f *facts) windowTo(to migrate.Phase, fleet migrate.Fleet) (need time.Duration, formula string) {
	need = windowFor(fleet)
	formula = fmt.Sprintf("greatest lease %v + longest job %v + spread %v", fleet.Greatest.Time,
		fleet.Job.Time, fleet.Spread.Time)
	if idle := f.idle(); asksIdle(to) && idle.Time > need {
		return idle.Time, fmt.Sprintf("longest pause between two attempts of an old client %v", idle)
	}
	return need, formula
}

// askIdle blocks where the longest pause of an old client is unknown.
func (b *builder) askIdle() {
	seen := ""
	if p := b.sighting.Pause; p.Known() {
		seen = fmt.Sprintf("; %v was seen on a key, and a client that pauses for longer was not seen",
			p.Time.Round(time.Millisecond))
	}
	switch idle := b.idle(); idle.Source {
	case migrate.Unknown:
		b.block("idle", "the longest pause between two attempts of an old client is unknown: set --idle (24h where a job runs each night; the longest of all schedules counts)%s", seen)
	case migrate.Claimed:
		b.claim("idle", "the longest pause between two attempts of an old client: %v%s", idle.Time, seen)
	default:
		b.noteAt(b.sighting.Pause.At, "idle",
			"the longest pause between two attempts of an old client: %v, seen on a key; the claim was %v", idle.Time, b.claims.Idle)
	}
}

// notAsked is what a watch says of a source that its operator did not ask for.
const notAsked = "not asked for"

// provers are the ways of watching that can prove a quiet window in a dialect.
// Counts of SETNX and GETSET prove something only where each attempt begins
// with a SETNX.
func provers(d dialect.Dialect) []Watch {
	if d.Acquire == dialect.AcquireSetnx && d.HasTakeover() {
		return []Watch{WatchStats, WatchMonitor}
	}
	return []Watch{WatchMonitor}
}

// window blocks until no old client has tried for a lock for long enough, by
// the lesser of the server's time and the watcher's own.
func (b *builder) window(to migrate.Phase) {
	fleet, _ := b.fleet()
	need, formula := b.windowTo(to, fleet)
	if fleet.Job.Source == migrate.Unknown || fleet.Greatest.Source == migrate.Unknown {
		b.block("window", "how long to watch depends on the old clients' longest lease and job, which are unknown: set --lease and --job")
		return
	}
	if to == migrate.Clean && b.taken() {
		b.lastTouches(windowFor(fleet)) // a client that won before may still hold
		return
	}
	b.lastTouches(need)
	if b.claims.Gone {
		b.claim("window", "no old client runs any more, and none held a lock within %v (%s)", need, formula)
		return
	}
	quiet, by, why := b.quiet(to)
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
			"no watcher runs: run getsetlock migrate status --watch for at least %v (%s)", need, formula)
	case b.now.Sub(s.Until) > watchFresh:
		b.blockFor(need, "window", "the watcher %s stopped %v ago, and a window with a hole begins anew: run status --watch for at least %v (%s)", s.Observer, b.now.Sub(s.Until).Round(time.Second), need, formula)
	case s.Until.Sub(b.now) > time.Second:
		b.blockFor(need, "window",
			"the last look lies %v ahead of the server's clock, which was set back: the window begins anew", s.Until.Sub(b.now).Round(time.Millisecond))
	case by == "":
		b.noWindow(need, formula, why)
	case quiet < need:
		b.blockFor(need-quiet, "window",
			"no old client tried for a lock for %v by %s; it must be %v (%s), so %v are left%s",
			quiet.Round(time.Millisecond), by, need, formula, (need - quiet).Round(time.Millisecond),
			b.cutAfter(by))
	case b.now.Sub(s.until(by)) > watchFresh:
		b.blockFor(watchFresh, "window", "the watcher runs, and has received nothing by %s for %v: lines come late, or not at all; the window ends there", by, b.now.Sub(s.until(by)).Round(time.Second))
	default:
		b.everSeen()
		b.noteAt(s.until(by).Add(-quiet), "window",
			"no old client tried for a lock for %v by %s; needed are %v (%s)", quiet.Round(time.Millisecond),
			by, need, formula)
	}
}

// noWindow closes the gate where no source proves any window.
func (b *builder) noWindow(need time.Duration, formula, why string) {
	if b.cutByCounts() {
		b.blockFor(need, "window", "%s; the window of %v (%s) begins when nothing is counted any more%s",
			b.countedCall(), need, formula, b.monitorMissing())
		return
	}
	b.blockFor(need, "window",
		"nothing proves that no old client tries for a lock: %s; or say by --gone that none runs any more", why)
}

// cutByCounts reports that the counters work and that a call they showed ended
// the window, up to the last look.
func (b *builder) cutByCounts() bool {
	s := b.sighting
	return slices.Contains(provers(b.dialect), WatchStats) && s.Missing[WatchStats] == "" &&
		!s.LastCalled.IsZero() && s.Until.Sub(s.LastCalled) <= watchFresh
}

// monitorMissing is an addition that says why MONITOR, which was asked for,
// proves nothing.
func (b *builder) monitorMissing() string {
	if text := b.sighting.Missing[WatchMonitor]; text != "" && text != notAsked {
		return "; monitor: " + text
	}
	return ""
}

// cutAfter is an addition to a sentence about a window by counts that a call
// ended.
func (b *builder) cutAfter(by Watch) string {
	if s := b.sighting; by != WatchStats || s.LastCalled.IsZero() {
		return ""
	}
	return "; " + b.countedCall()
}

// countedCall says what the counters saw last, what that means and what to do.
func (b *builder) countedCall() string {
	at := b.sighting.LastCalled.UTC().Format("2006-01-02 15:04:05Z")
	if t := later(b.sighting.LastWrite, b.sighting.LastFailed); t != nil &&
		b.sighting.LastCalled.Sub(t.At).Abs() <= watchFresh {
		return fmt.Sprintf("the server counted a SETNX or GETSET at %s; about then an old client%s acted on %q (%s): stop it", at, by(t.Who), t.Key, t.What)
	}
	return fmt.Sprintf("the server counted a SETNX or GETSET at %s (INFO commandstats, which names no client and no key, and counts every database): an old client tried for a lock, or another program sent it; find it with status --watch --monitor, and stop it", at)
}

// orRights notes what opens the gate to Clean in place of a window.
func (b *builder) orRights(to migrate.Phase, closed bool) {
	if to == migrate.Clean && closed && len(b.rights) == 0 {
		b.note("rights", "in place of that window: %s for each user that old clients log in as, then --refused USER (no getsetlock client sends %s); or stay in modern, which keeps old clients out of every key",
			aclLine(b.dialect, "USER"), strings.Join(takes(b.dialect), " or "))
	}
}

// quiet is the longest window that a source proves, and that source. To Modern
// and Clean only the part within the recorded phase counts. By is empty where
// no source proves any, and why says why.
func (b *builder) quiet(to migrate.Phase) (longest time.Duration, by Watch, why string) {
	var missing []string
	for _, w := range provers(b.dialect) {
		if text := b.sighting.Missing[w]; text != "" {
			if text == notAsked && w == WatchMonitor {
				text += " (status --watch --monitor asks for it)"
			}
			missing = append(missing, string(w)+": "+text)
			continue
		}
		if q, ok := b.sighting.Quiet[w]; ok && (by == "" || q > longest) {
			longest, by = q, w
		}
	}
	if to > migrate.Sealed && by != "" {
		longest = min(longest, max(0, b.sighting.until(by).Sub(b.record.Since)))
	}
	if by == "" && len(missing) == 0 {
		missing = append(missing, "the watcher has only just begun")
	}
	slices.Sort(missing)
	return longest, by, strings.Join(missing, "; ")
}

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
