package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Watch is a way of watching that can prove that no old client tries for a
// lock.
type Watch string

// The ways of watching. Other ways miss attempts that failed.
const (
	WatchStats   Watch = "stats"   // calls of SETNX and GETSET as the server counts them, by any client
	WatchMonitor Watch = "monitor" // every command, without a break
)

// Fact is a time that was found by watching, and how.
type Fact struct {
	Time  time.Duration `json:"ns"`
	Basis string        `json:"basis"`       // measured, given, inferred, claimed; empty: unknown
	At    time.Time     `json:"at,omitzero"` // the server's clock
	Who   string        `json:"who,omitempty"`
	Note  string        `json:"note,omitempty"`
}

// Known reports that Time means something.
func (f Fact) Known() bool { return f.Basis != "" }

// Touch is an act of an old client on a key.
type Touch struct {
	At   time.Time `json:"at"` // the server's clock
	Key  string    `json:"key,omitempty"`
	What string    `json:"what"`
	Who  string    `json:"who,omitempty"` // address, name, library, as far as known
}

// Sighting is what watchers saw of the old clients, as the gates read it from
// the server.
type Sighting struct {
	Format   string    `json:"format"`   // version of this form
	Observer string    `json:"observer"` // name of the watcher whose window this is
	From     time.Time `json:"from"`     // beginning of that watch, by the server's clock
	Until    time.Time `json:"until"`    // last look of that watch

	// Except are the longer namespaces whose keys the watcher did not watch,
	// since they were carved out.
	Except []string `json:"except,omitempty"`

	// Quiet has the window of each source that can prove one: how long no old
	// client tried for a lock, without a hole. A window is the lesser of the
	// server's time and the watcher's own. QuietUntil is the end of each
	// window: for MONITOR the youngest marker that came back, else the last
	// look. A source without an entry there ends at Until. Missing says why a
	// source proves nothing.
	Quiet      map[Watch]time.Duration `json:"quiet_ns"`
	QuietUntil map[Watch]time.Time     `json:"quiet_until,omitempty"`
	Missing    map[Watch]string        `json:"missing,omitempty"`

	// Counted is where the window by the server's counts ended, so that a later
	// watch can go on with it; nil where nothing was proved.
	Counted *counted `json:"counted,omitempty"`

	// The fields below are joined from all watchers since the evidence began
	// anew.
	Lease Fact `json:"smallest_lease"`
	// LeaseLooks is a smaller lease than the given one that fits better what an
	// old client writes.
	LeaseLooks Fact `json:"lease_looks,omitzero"`
	Greatest   Fact `json:"greatest_lease"`
	Spread     Fact `json:"spread"`        // upper bound; unknown unless every clock was bounded
	Proved     Fact `json:"spread_proved"` // lower bound of the spread
	Gap        Fact `json:"longest_gap"`
	Job        Fact `json:"longest_hold"`
	Pause      Fact `json:"longest_pause"` // between two attempts on one key

	// Server is the run id of the server by whose clock the next four fields
	// were seen. They say nothing of another server's clock.
	Server string `json:"server,omitempty"`

	// Behind and Ahead bound the clock of every old client that was seen. They
	// count as measured where their basis says so, which takes a window of
	// Idle.
	Behind Fact `json:"behind"`
	Ahead  Fact `json:"ahead"`

	// BehindProved and AheadProved are how far the clock of some old client was
	// behind or ahead at least. They refute a smaller claim, and prove nothing
	// of clients that were not seen.
	BehindProved Fact `json:"behind_proved"`
	AheadProved  Fact `json:"ahead_proved"`

	LastWrite  *Touch `json:"last_write,omitempty"`
	LastFailed *Touch `json:"last_failed,omitempty"`
	// LastCalled is the reading of the server's counts that showed the latest
	// SETNX or GETSET. Counts name no key and no client. Zero where none was
	// counted.
	LastCalled time.Time `json:"last_called,omitzero"`
	// Alarm is the last act of an old client after the fleet went to Clean,
	// where nothing but a tombstone keeps it out.
	Alarm *Touch       `json:"alarm,omitempty"`
	Keys  []SightedKey `json:"keys,omitempty"` // the latest, at most mostSighted, sorted by name

	DoubleGrants int64    `json:"double_grants"`
	GetsetFirst  []string `json:"getset_first,omitempty"` // addresses, sorted
	Mixed        []string `json:"mixed,omitempty"`        // keys written in more than one dialect, sorted
}

// seeQuiet adds the windows that a watch proves.
func (s *Sighting) seeQuiet(e *census.Evidence) {
	s.Quiet, s.QuietUntil, s.Missing = map[Watch]time.Duration{}, map[Watch]time.Time{}, map[Watch]string{}
	for source, way := range map[census.Source]Watch{
		census.SourceStats: WatchStats, census.SourceMonitor: WatchMonitor} {
		c := e.Covered(source)
		if missing := cmp.Or(c.Missing, c.Unproved); missing != "" {
			s.Missing[way] = missing
		} else if from, quiet := e.Quiet(source); quiet > 0 {
			// The server's time, and no more than the watcher's own.
			s.Quiet[way], s.QuietUntil[way] = min(quiet, c.Elapsed), from.Add(quiet)
		}
	}
}

// until is the end of a window.
func (s *Sighting) until(w Watch) time.Time {
	if at, ok := s.QuietUntil[w]; ok {
		return at
	}
	return s.Until
}

// seeClocks adds how far old clients' clocks are off the clock of the watched
// server. What was seen proves a lower bound. An upper bound counts as measured
// when the watch was long enough.
func (s *Sighting) seeClocks(e *census.Evidence) {
	s.Server = e.Run
	for _, c := range []struct {
		bound            census.Bound
		measured, proved *Fact
	}{{e.Behind, &s.Behind, &s.BehindProved}, {e.Ahead, &s.Ahead, &s.AheadProved}} {
		if c.bound.Span.Basis == census.Measured {
			*c.measured = Fact{Time: c.bound.Span.Value, Basis: string(census.Measured), At: e.Until}
		}
		if !c.bound.Guessed && c.bound.AtLeast > 0 {
			*c.proved = Fact{Time: c.bound.AtLeast, Basis: string(census.Measured), At: e.Until}
		}
	}
}

// clocksWith joins bounds of clocks that were seen before by the same server's
// clock.
func (s *Sighting) clocksWith(before Sighting) {
	if s.Server != before.Server {
		return
	}
	s.Behind, s.Ahead = greater(s.Behind, before.Behind), greater(s.Ahead, before.Ahead)
	s.BehindProved, s.AheadProved = greater(s.BehindProved, before.BehindProved),
		greater(s.AheadProved, before.AheadProved)
}

// SightedKey is the last that was seen of old clients on one key.
type SightedKey struct {
	Key        string `json:"key"`
	LastWrite  *Touch `json:"last_write,omitempty"`
	LastFailed *Touch `json:"last_failed,omitempty"`
}

func (k SightedKey) last() time.Time {
	var at time.Time
	for _, a := range []*Touch{k.LastWrite, k.LastFailed} {
		if a != nil && a.At.After(at) {
			at = a.At
		}
	}
	return at
}

const (
	sightingFormat = "gsl-seen/2"
	mostSighted    = 200 // keys, so that the whole stays below a hundred kilobytes
	mostMixed      = 50

	// sightingTTL is how long evidence is kept after the last look. After that
	// nobody knows which clients it was about.
	sightingTTL = 30 * 24 * time.Hour
)

// with returns s joined with what was known before. The windows stay those of
// s, since a watcher proves nothing of a time when it did not watch.
func (s Sighting) with(before Sighting) Sighting {
	if before.Format == "" {
		return s
	}
	s.Lease, s.LeaseLooks = lesser(s.Lease, before.Lease), lesser(s.LeaseLooks, before.LeaseLooks)
	s.Greatest, s.Spread = greater(s.Greatest, before.Greatest), greater(s.Spread, before.Spread)
	s.Proved = greater(s.Proved, before.Proved)
	s.Gap, s.Job = greater(s.Gap, before.Gap), greater(s.Job, before.Job)
	s.Pause = greater(s.Pause, before.Pause)
	s.clocksWith(before)
	s.LastWrite, s.LastFailed = later(s.LastWrite, before.LastWrite), later(s.LastFailed, before.LastFailed)
	if before.LastCalled.After(s.LastCalled) {
		s.LastCalled = before.LastCalled
	}
	s.Alarm = later(s.Alarm, before.Alarm)
	s.cut()
	s.DoubleGrants = max(s.DoubleGrants, before.DoubleGrants)
	s.GetsetFirst = append(slices.Clone(s.GetsetFirst), before.GetsetFirst...)
	s.Mixed = append(slices.Clone(s.Mixed), before.Mixed...)
	byKey := map[string]SightedKey{}
	for _, k := range append(slices.Clone(before.Keys), s.Keys...) {
		old := byKey[k.Key]
		byKey[k.Key] = SightedKey{k.Key, later(k.LastWrite, old.LastWrite),
			later(k.LastFailed, old.LastFailed)}
	}
	s.Keys = nil
	for _, k := range byKey {
		s.Keys = append(s.Keys, k)
	}
	s.bound()
	return s
}

// cut ends each window at the last act of an old client within it, which
// another watcher may have seen.
func (s *Sighting) cut() {
	last := later(s.LastWrite, s.LastFailed)
	if last == nil {
		return
	}
	s.Quiet = maps.Clone(s.Quiet)
	for w, quiet := range s.Quiet {
		if since := s.until(w).Sub(last.At); since >= 0 {
			s.Quiet[w] = min(quiet, since)
		}
	}
}

// bound keeps the digest small: it keeps the keys with the latest acts, and the
// first names of each list.
func (s *Sighting) bound() {
	slices.SortFunc(s.Keys, func(a, b SightedKey) int {
		if c := b.last().Compare(a.last()); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	s.Keys = s.Keys[:min(len(s.Keys), mostSighted)]
	slices.SortFunc(s.Keys, func(a, b SightedKey) int { return strings.Compare(a.Key, b.Key) })
	for _, list := range []*[]string{&s.GetsetFirst, &s.Mixed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		*list = (*list)[:min(len(*list), mostMixed)]
	}
}

// alarmed sets Alarm to the last act of an old client, if that came after the
// fleet went to Clean.
func (s *Sighting) alarmed(r migrate.Record) {
	s.Alarm = nil
	if r.Phase != migrate.Clean {
		return
	}
	if last := later(s.LastWrite, s.LastFailed); last != nil && last.At.After(r.Since) {
		s.Alarm = last
	}
}

// alarm notes that an old client came back to a fleet in Clean.
func (r *Report) alarm(f *facts) {
	f.sighting.alarmed(f.record.Record)
	if a := f.sighting.Alarm; a != nil {
		r.note("ALARM: an old client%s acted on %q at %s (%s), and in clean only a tombstone keeps it out: stop it; two clients may have held the lock at once", by(a.Who), a.Key, a.At.UTC().Format("2006-01-02 15:04:05Z"), a.What)
	}
}

func lesser(a, b Fact) Fact {
	if !a.Known() || b.Known() && b.Time < a.Time {
		return b
	}
	return a
}

func greater(a, b Fact) Fact {
	if !a.Known() || b.Known() && b.Time > a.Time {
		return b
	}
	return a
}

func later(a, b *Touch) *Touch {
	if a == nil || b != nil && b.At.After(a.At) {
		return b
	}
	return a
}

func (s Sighting) text() (string, error) {
	raw, err := json.Marshal(s)
	return string(raw), err
}

// parseSighting reads what text writes. An empty text is the zero Sighting.
func parseSighting(text string) (Sighting, error) {
	if text == "" {
		return Sighting{}, nil
	}
	var s Sighting
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Sighting{}, fmt.Errorf("%w: %w", record.ErrForm, err)
	}
	switch s.Format {
	case sightingFormat:
	case "gsl-seen/1":
		return Sighting{}, record.ErrOlder
	default:
		return Sighting{}, record.ErrNewer
	}
	return s, nil
}

// without drops the windows if the watcher left out keys that belong to the
// namespace, since they were given back meanwhile.
func (s *Sighting) without(found stored) error {
	for _, namespace := range s.Except {
		if !found.Lists(namespace) {
			s.Quiet = nil
			return fmt.Errorf("the keys of %q were given back meanwhile, and no watcher watched them: the watcher begins anew with its next look", namespace)
		}
	}
	return nil
}
