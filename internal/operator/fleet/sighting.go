// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
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

	Window

	// Counts: the server says how often SETNX and GETSET were called.
	Counts bool `json:"counts,omitempty"`

	// The fields below are joined from all watchers since the evidence began
	// anew.
	Facts
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

// Window is a time without old clients.
type Window struct {
	// Quiet is the window that MONITOR proves: how long no old client tried for
	// a lock, without a hole. It is the lesser of the server's time and the
	// watcher's own. QuietUntil is its end: the last instant at which MONITOR
	// had shown every call that the server counted; zero where there was none.
	// Missing says why MONITOR proves nothing, and Hole is the last time that
	// MONITOR did not show whole.
	Quiet      time.Duration `json:"quiet_ns"`
	QuietUntil time.Time     `json:"quiet_until,omitzero"`
	Missing    string        `json:"missing,omitempty"`
	Hole       *Hole         `json:"hole,omitempty"`
}

// Facts are the times of old clients that were seen.
type Facts struct {
	Lease Fact `json:"smallest_lease"`
	// LeaseLooks is a smaller lease than the given one that fits better what an
	// old client writes.
	LeaseLooks Fact `json:"lease_looks,omitzero"`
	Greatest   Fact `json:"greatest_lease"`
	Proved     Fact `json:"spread_proved"` // lower bound of the spread
	Gap        Fact `json:"longest_gap"`
	Job        Fact `json:"longest_hold"`
	Pause      Fact `json:"longest_pause"` // between two attempts on one key

	// BehindProved and AheadProved are how far the clock of some old client was
	// behind the server's or ahead of it at least. They refute a smaller claim,
	// which speaks of every server, and permit nothing.
	BehindProved Fact `json:"behind_proved"`
	AheadProved  Fact `json:"ahead_proved"`

	// LeastLead and MostLead are how far ahead of the server's clock stamps of
	// old clients were when they were written, and Leads is how far apart that
	// was at one time, as in [census.Bound]. They assume no lease: what is
	// claimed later is compared with them too.
	LeastLead Fact `json:"least_lead,omitzero"`
	MostLead  Fact `json:"most_lead,omitzero"`
	Leads     Fact `json:"leads,omitzero"`
}

// seeQuiet adds the window that MONITOR proves.
func (s *Sighting) seeQuiet(e *census.Evidence) {
	c := e.Covered(census.SourceMonitor)
	s.Missing = cmp.Or(c.Missing, c.Unproved)
	if n := len(c.Holes); n > 0 {
		s.Hole = &Hole{At: c.Holes[n-1].Until, Why: c.Holes[n-1].Detail}
	}
	if _, quiet := e.Quiet(); s.Missing == "" {
		// The server's time, and no more than the watcher's own.
		s.Quiet, s.QuietUntil = min(quiet, c.Elapsed), c.Sighted
	}
}

// cutBy is an addition that says what ended the window last; empty where
// nothing did.
func (s *Sighting) cutBy() string {
	t, h := later(s.LastWrite, s.LastFailed), s.Hole
	switch {
	case h != nil && (t == nil || h.At.After(t.At)):
		return fmt.Sprintf("; what was before counts no more: %s", h.Why)
	case t != nil:
		return fmt.Sprintf("; a client%s acted on %q (%s) at %s: stop it", by(t.Who), t.Key, t.What,
			dated(t.At))
	}
	return ""
}

// seeClocks adds how far old clients' clocks are off the clock of the watched
// server at least.
func (s *Sighting) seeClocks(e *census.Evidence) {
	for _, c := range []struct {
		bound  census.Bound
		proved *Fact
	}{{e.Behind, &s.BehindProved}, {e.Ahead, &s.AheadProved}} {
		if proved := c.bound.Proved(); proved > 0 {
			*c.proved = Fact{Time: proved, Basis: string(census.Measured), At: e.Until, Note: c.bound.Unless}
		}
	}
	measured := func(d time.Duration) Fact {
		return Fact{Time: d, Basis: string(census.Measured), At: e.Until}
	}
	if e.Behind.Writes > 0 && e.Behind.Lead != offset.NoLow {
		s.LeastLead, s.MostLead = measured(e.Behind.Lead), measured(e.Ahead.Lead)
	}
	if e.Spread.Leads > 0 {
		s.Leads = measured(e.Spread.Leads)
	}
}

// clocks returns what stamps say of clocks by the claims: how far some were
// behind the server's at least, how far ahead of it, and how far apart.
func (f Facts) clocks(fl migrate.Fleet) (behind, ahead, apart Fact) {
	behind, ahead, apart = f.BehindProved, f.AheadProved, f.Proved
	if unsaid(fl.Lease) || unsaid(fl.Gap) {
		return
	}
	by := func(lead Fact, d time.Duration) Fact {
		if !lead.Known() || d <= 0 {
			return Fact{}
		}
		lead.Time = d
		return lead
	}
	behind = greater(behind, by(f.LeastLead, fl.Lease.Time-fl.Gap.Time-f.LeastLead.Time))
	ahead = greater(ahead, by(f.MostLead, f.MostLead.Time-fl.Greatest.Time))
	apart = greater(apart, by(f.Leads, f.Leads.Time-(fl.Greatest.Time-fl.Lease.Time)-fl.Gap.Time))
	return
}

// Hole is a time that MONITOR did not show whole.
type Hole struct {
	At  time.Time `json:"at"` // its end, by the server's clock
	Why string    `json:"why"`
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

// with returns s joined with what was known before. The window stays that of
// s, since a watcher proves nothing of a time when it did not watch.
func (s Sighting) with(before Sighting) Sighting {
	if before.Format == "" {
		return s
	}
	s.Facts = s.Facts.with(before.Facts)
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

// with keeps of each fact the one that says more.
func (f Facts) with(before Facts) Facts {
	f.Lease, f.LeaseLooks = lesser(f.Lease, before.Lease), lesser(f.LeaseLooks, before.LeaseLooks)
	f.LeastLead = lesser(f.LeastLead, before.LeastLead)
	for _, kept := range [][2]*Fact{{&f.Greatest, &before.Greatest}, {&f.Proved, &before.Proved},
		{&f.Gap, &before.Gap}, {&f.Job, &before.Job}, {&f.Pause, &before.Pause},
		{&f.BehindProved, &before.BehindProved}, {&f.AheadProved, &before.AheadProved},
		{&f.MostLead, &before.MostLead}, {&f.Leads, &before.Leads}} {
		*kept[0] = greater(*kept[0], *kept[1])
	}
	return f
}

// cut ends the window at the last act of an old client within it, which
// another watcher may have seen.
func (s *Sighting) cut() {
	if last := later(s.LastWrite, s.LastFailed); last != nil && !last.At.After(s.QuietUntil) {
		s.Quiet = min(s.Quiet, s.QuietUntil.Sub(last.At))
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
// fleet went to Clean. An attempt in vain counts, and where no watcher saw one,
// a SETNX or GETSET that the server counted.
func (s *Sighting) alarmed(r migrate.Record) {
	s.Alarm = nil
	if r.Phase != migrate.Clean {
		return
	}
	last := later(s.LastWrite, s.LastFailed)
	if last == nil || s.LastCalled.Sub(last.At) > watchFresh {
		last = &Touch{At: s.LastCalled, What: "a SETNX or GETSET that the server counted, in any database"}
	}
	if last.At.After(r.Since) {
		s.Alarm = last
	}
}

// alarm notes that an old client came back to a fleet in Clean.
func (r *Report) alarm(f *facts) {
	f.sighting.alarmed(f.record.Record)
	if a := f.sighting.Alarm; a != nil {
		on := ""
		if a.Key != "" {
			on = fmt.Sprintf(" on %q", a.Key)
		}
		r.note("ALARM: an old client%s acted%s at %s (%s), and in clean only a tombstone keeps it out: stop it; two clients may have held the lock at once", by(a.Who), on, dated(a.At), a.What)
	}
}

func lesser(a, b Fact) Fact {
	if !a.Known() || b.Known() && b.Time < a.Time {
		return b
	}
	return a
}

// greater returns the fact that refutes more. A guess refutes nothing, so that
// none replaces a proof.
func greater(a, b Fact) Fact {
	if proves(a) != proves(b) && proves(b) || proves(a) == proves(b) && b.Time > a.Time {
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
	err := record.Decode(text, &s)
	switch {
	case s.Format == sightingFormat, s.Format == "" && err != nil:
	case s.Format == "gsl-seen/1":
		err = record.ErrOlder
	default:
		err = record.ErrNewer
	}
	if err != nil {
		return Sighting{}, err
	}
	return s, nil
}
