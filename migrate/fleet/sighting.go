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

// Watch is a way of watching that can prove that nobody tries for an old lock.
type Watch string

// The ways of watching. Others see what was written, and not the attempts that failed.
const (
	WatchStats   Watch = "stats"   // calls of SETNX and GETSET, as the server counts them, by whomever
	WatchMonitor Watch = "monitor" // every command, without a break
)

// Fact is a time that was found out by watching, with the word for how.
type Fact struct {
	Time  time.Duration `json:"ns"`
	Basis string        `json:"basis"`       // measured, given, inferred, claimed; empty: nothing is known
	At    time.Time     `json:"at,omitzero"` // the server's clock
	Who   string        `json:"who,omitempty"`
	Note  string        `json:"note,omitempty"`
}

// Known reports that Time means something.
func (f Fact) Known() bool { return f.Basis != "" }

// Touch is something that an old client did to a key.
type Touch struct {
	At   time.Time `json:"at"` // the server's clock
	Key  string    `json:"key,omitempty"`
	What string    `json:"what"`
	Who  string    `json:"who,omitempty"` // address, name, library, as far as they are known
}

// Sighting is what somebody saw of the old clients by watching, as the gates find it on the server.
type Sighting struct {
	Format   string    `json:"format"`   // the version of this form
	Observer string    `json:"observer"` // who wrote it last
	From     time.Time `json:"from"`     // since when that one has watched, by the server's clock
	Until    time.Time `json:"until"`    // its last look

	// Except are the longer namespaces whose keys that one did not watch, since they
	// were carved out.
	Except []string `json:"except,omitempty"`

	// Quiet is for how long nobody tried for an old lock, by each source that can
	// prove it: the lesser of the server's time and the observer's own, without a
	// hole. QuietUntil is where it ends: by MONITOR at the youngest marker that came
	// back, else at the last look. A source that is not named there ends at Until.
	// Missing says why a source proves nothing.
	Quiet      map[Watch]time.Duration `json:"quiet_ns"`
	QuietUntil map[Watch]time.Time     `json:"quiet_until,omitempty"`
	Missing    map[Watch]string        `json:"missing,omitempty"`

	// Counted is where the window by the server's counts ended, for a watch that
	// begins later; nil where nothing was proved.
	Counted *counted `json:"counted,omitempty"`

	// What follows is gathered from all observers since the evidence was last begun anew.
	Lease Fact `json:"smallest_lease"`
	// LeaseLooks is a smaller lease than the given one that fits better what an old
	// client writes.
	LeaseLooks Fact `json:"lease_looks,omitzero"`
	Greatest   Fact `json:"greatest_lease"`
	Spread     Fact `json:"spread"`        // guaranteed; unknown unless all that matters was bounded
	Proved     Fact `json:"spread_proved"` // their clocks were at least so far apart
	Gap        Fact `json:"longest_gap"`
	Job        Fact `json:"longest_hold"`
	Pause      Fact `json:"longest_pause"` // between two attempts on one key

	// Server is the run id of the server by whose clock the next four were seen.
	// Under another one they say nothing.
	Server string `json:"server,omitempty"`

	// Behind and Ahead hold for the clock of every old client that was seen. They
	// count as measured where their basis says so: by then it was watched for long
	// enough.
	Behind Fact `json:"behind"`
	Ahead  Fact `json:"ahead"`

	// One old client's clock was at least so far behind, and one's at least so far
	// ahead. That refutes a smaller claim, and proves nothing of who was not seen.
	BehindProved Fact `json:"behind_proved"`
	AheadProved  Fact `json:"ahead_proved"`

	LastWrite  *Touch `json:"last_write,omitempty"`
	LastFailed *Touch `json:"last_failed,omitempty"`
	// LastCalled is the reading of the server's counts that showed the latest SETNX
	// or GETSET. Counts name no key and no client. Zero where none was counted.
	LastCalled time.Time `json:"last_called,omitzero"`
	// Alarm is the last act of an old client after the fleet went to Clean, where
	// nothing but a tombstone keeps it out.
	Alarm *Touch       `json:"alarm,omitempty"`
	Keys  []SightedKey `json:"keys,omitempty"` // the latest, at most mostSighted, sorted by name

	DoubleGrants int64    `json:"double_grants"`
	GetsetFirst  []string `json:"getset_first,omitempty"` // addresses, sorted
	Mixed        []string `json:"mixed,omitempty"`        // keys written in more than one dialect, sorted
}

// seeQuiet adds the windows that a watch proves.
func (s *Sighting) seeQuiet(e *census.Evidence) {
	s.Quiet, s.QuietUntil, s.Missing = map[Watch]time.Duration{}, map[Watch]time.Time{}, map[Watch]string{}
	for source, way := range map[census.Source]Watch{census.SourceStats: WatchStats, census.SourceMonitor: WatchMonitor} {
		c := e.Covered(source)
		if missing := cmp.Or(c.Missing, c.Unproved); missing != "" {
			s.Missing[way] = missing
		} else if from, quiet := e.Quiet(source); quiet > 0 {
			// The server's time, and no more than the observer's own.
			s.Quiet[way], s.QuietUntil[way] = min(quiet, c.Elapsed), from.Add(quiet)
		}
	}
}

// until is where a window ends.
func (s *Sighting) until(w Watch) time.Time {
	if at, ok := s.QuietUntil[w]; ok {
		return at
	}
	return s.Until
}

// seeClocks adds what a watch found of old clients' clocks against the clock of
// the server that it watched. What was seen proves at least so much; a bound
// counts as measured when the watch was long enough.
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

// clocksWith adds what was known of the clocks before, by the same server's clock.
func (s *Sighting) clocksWith(before Sighting) {
	if s.Server != before.Server {
		return
	}
	s.Behind, s.Ahead = greater(s.Behind, before.Behind), greater(s.Ahead, before.Ahead)
	s.BehindProved, s.AheadProved = greater(s.BehindProved, before.BehindProved), greater(s.AheadProved, before.AheadProved)
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

	// sightingTTL is how long evidence is kept after the last look. Then nobody can say any more whom it
	// speaks of.
	sightingTTL = 30 * 24 * time.Hour
)

// with adds what was known before. The quiet is the observer's own: who was not there cannot say.
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
		byKey[k.Key] = SightedKey{k.Key, later(k.LastWrite, old.LastWrite), later(k.LastFailed, old.LastFailed)}
	}
	s.Keys = nil
	for _, k := range byKey {
		s.Keys = append(s.Keys, k)
	}
	s.bound()
	return s
}

// cut ends a window at the last act within it, which another watcher may have
// seen.
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

// bound keeps the digest small: of the keys the latest, of names the first.
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

// alarmed notes acts of old clients after the fleet went to Clean.
func (s *Sighting) alarmed(r migrate.Record) {
	s.Alarm = nil
	if r.Phase != migrate.Clean {
		return
	}
	if last := later(s.LastWrite, s.LastFailed); last != nil && last.At.After(r.Since) {
		s.Alarm = last
	}
}

// alarm says of a fleet in Clean that an old client came back.
func (r *Report) alarm(f *facts) {
	f.sighting.alarmed(f.record.Record)
	if a := f.sighting.Alarm; a != nil {
		r.note("ALARM: an old client%s acted on %q at %s (%s), and in clean nothing but a tombstone keeps it out: stop it; two may have held at once", by(a.Who), a.Key, a.At.UTC().Format("2006-01-02 15:04:05Z"), a.What)
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

// parseSighting reads what text writes; nothing is no sighting.
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

// without forgets how long it was quiet, if keys were not watched that a record
// gives to the namespace: they were given back since.
func (s *Sighting) without(found stored) error {
	for _, namespace := range s.Except {
		if !found.Lists(namespace) {
			s.Quiet = nil
			return fmt.Errorf("the keys of %q were given back since, and were not watched: the watcher begins anew with its next look", namespace)
		}
	}
	return nil
}
