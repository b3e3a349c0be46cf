package sim

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// disorder is something that closes gates for as long as it lasts.
type disorder struct {
	name string
	// from is the first phase to which no step forwards may lead. Observe: no
	// step at all, NoPhase: every step may be taken.
	from migrate.Phase
	does func(w *world)                    // on the server; nil: nothing
	sees func(s *fleet.Sighting, old *Old) // what the watcher reports from then on; nil: nothing
}

// measured is a fact that was measured.
func measured(s *fleet.Sighting, at time.Duration) fleet.Fact {
	return fleet.Fact{Time: at, Basis: "measured", At: s.Until}
}

// Disorders that close no gate.
const (
	unheard    = "the first member's heartbeats are refused" // soon it has no lock
	lostRecord = "the record is lost"                        // the next one forgets what was not over
	oldRecord  = "an old record was restored"                // nobody writes it anew
)

// unmended reports that members may wait for ever for an operator who writes
// the record anew.
func (o *Old) unmended() bool { return o.has(lostRecord) || o.has(oldRecord) }

// has reports whether the old clients' plan has a disorder.
func (o *Old) has(name string) bool {
	return o != nil && o.Disorder > 0 && disorders[o.Disorder-1].name == name
}

// disorders are drawn for fleets whose record stands from the start.
var disorders = []disorder{
	{"MONITOR is refused", migrate.Sealed, nil, func(s *fleet.Sighting, _ *Old) {
		s.Missing, s.Quiet, s.QuietUntil = "refused", 0, time.Time{}
	}},
	{"the watcher has a hole", migrate.Sealed, nil, func(s *fleet.Sighting, _ *Old) {
		s.Quiet = time.Second
	}},
	{"MONITOR proves nothing any more", migrate.Sealed, nil, func(s *fleet.Sighting, _ *Old) {
		s.QuietUntil = s.Until.Add(-20 * time.Second)
	}},
	{"a client sends GETSET first", migrate.Dual, nil, func(s *fleet.Sighting, _ *Old) {
		s.GetsetFirst = []string{"10.0.0.1:1"}
	}},
	{"an old client tries for another key", migrate.Sealed, nil, func(s *fleet.Sighting, _ *Old) {
		s.Keys = append(s.Keys, fleet.SightedKey{Key: "k9", LastFailed: &fleet.Touch{At: s.Until, Key: "k9",
			What: "attempt"}})
	}},
	{"a greater lease was seen", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.Greatest = measured(s, o.Claims.Greatest+time.Second)
	}},
	{"a smaller lease was seen", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.Lease = measured(s, o.Claims.Lease-time.Second)
	}},
	{"what was written looks like a smaller lease", migrate.Observe, nil,
		func(s *fleet.Sighting, o *Old) {
			s.LeaseLooks = fleet.Fact{Time: o.Claims.Lease / 2, Basis: "inferred", At: s.Until}
		}},
	{"a longer job was seen", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.Job = measured(s, o.job()+time.Second)
	}},
	{"a longer gap was seen", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.Gap = measured(s, dialect.Bound(o.Claims.Gap)+time.Second)
	}},
	{"clocks were seen to be further apart", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.Proved = measured(s, dialect.Bound(o.Claims.Spread)+time.Second)
	}},
	{"a clock was seen to be off", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		s.BehindProved = measured(s, dialect.Bound(o.Claims.Behind)+time.Second)
		s.AheadProved = measured(s, dialect.Bound(o.Claims.Ahead)+time.Second)
		if o.Claims.Behind == 0 && o.Claims.Ahead == 0 {
			s.Job = measured(s, o.job()+time.Second) // neither is claimed, so neither is refuted
		}
	}},
	{"stamps say that a clock is off", migrate.Observe, nil, func(s *fleet.Sighting, o *Old) {
		lead := o.Claims.Lease - dialect.Bound(o.Claims.Gap) - dialect.Bound(o.Claims.Behind) - time.Second
		s.LeastLead, s.MostLead = measured(s, lead), measured(s, lead+time.Minute)
		s.Leads = measured(s, time.Minute)
	}},
	{"the server evicts keys", migrate.Dual, func(w *world) {
		w.limits = "maxmemory:1000000\r\nmaxmemory_policy:allkeys-lru\r\n"
	}, nil},
	{"the server is one of a cluster", migrate.Observe, func(w *world) {
		w.limits = "maxmemory:0\r\ncluster_enabled:1\r\n"
	}, nil},
	{"another namespace owns the keys", migrate.Observe, func(w *world) {
		r := migrate.Record{Epoch: 1, Phase: migrate.Observe, Since: w.redis.ServerNow().UTC(),
			Dialect: "Jedis"}
		_ = w.redis.Mini.Set(phaseKey+"0", r.String())
	}, nil},
	{"a stranger holds a guard", migrate.Sealed, func(w *world) {
		d := w.plan.Old.dialect()
		low, _ := d.GuardRange()
		text, _ := d.Guard(low+1, "00000000-0000-4000-8000-000000000000")
		guard, _ := d.EncodeValue(text)
		_ = w.redis.Mini.Set("k9", guard)
		_ = w.redis.Mini.Set("{k9}:gsl", "0123456789012345678901 "+guard+" stranger")
	}, nil},
	{"an old client holds another key", migrate.Sealed, func(w *world) {
		d := w.plan.Old.dialect()
		text, _ := d.Stamp(w.redis.ServerNow(), 24*time.Hour, "00000000-0000-4000-8000-000000000000")
		value, _ := d.EncodeValue(text)
		_ = w.redis.Mini.Set("k9", value)
	}, nil},
	{"a member cannot be read", migrate.Observe, func(w *world) {
		w.redis.Mini.HSet(rosterKey, "z", "?")
	}, nil},
	{"a member has vanished", migrate.Observe, func(w *world) {
		w.member("v", migrate.MemberState{Seen: w.redis.ServerNow().Add(-20 * time.Second)})
	}, nil},
	{"a member is leaving", migrate.Observe, func(w *world) {
		w.member("v", migrate.MemberState{Leaving: w.redis.ServerNow().Add(longAgo)})
	}, nil},
	{"a member has seen a later record", migrate.Observe, func(w *world) {
		w.member("v", migrate.MemberState{Epoch: 1000, Seen: w.redis.ServerNow().Add(longAgo)})
	}, nil},
	{"the roster was lost", migrate.Observe, func(w *world) { w.redis.Mini.Del(rosterKey) }, nil},
	{"the roster is another one", migrate.Observe, func(w *world) {
		w.redis.Mini.HSet(rosterKey, "nonce", "another")
	}, nil},
	{"the server has restarted", migrate.Observe, func(w *world) {
		w.ups[0] = uptime{w.ups[0].run + 1, w.h.now()}
	}, nil},
	{oldRecord, migrate.Observe, func(w *world) {
		r := w.record()
		r.Epoch = 1
		_ = w.redis.Mini.Set(phaseKey, r.String())
		w.said = migrate.Record{}
	}, nil},
	{lostRecord, migrate.NoPhase, (*world).loses, nil},
	{unheard, migrate.NoPhase, func(w *world) { w.mutes = true }, nil},
	{"the watcher stops", migrate.Sealed, nil, nil},
}

// remembered reports whether a member in the roster has seen the record that an
// old one replaced. Nobody can know of it when these have left or are forgotten.
func (w *world) remembered() bool {
	fields, _ := w.redis.Mini.HKeys(rosterKey)
	return slices.ContainsFunc(fields, func(id string) bool {
		m, err := migrate.ParseMember(w.redis.Mini.HGet(rosterKey, id))
		return err == nil && m.Epoch >= firstEpoch
	})
}

// member puts a member into the roster that no process has. It renews for so
// long that nobody may forget it.
func (w *world) member(id string, s migrate.MemberState) {
	s.ID, s.Dialect, s.Every, s.Renews, s.TTL = id, w.plan.Old.Dialect, time.Second, longAgo, time.Second
	s.Phase, s.Probe = w.record().Phase, "ok"
	if s.Seen.IsZero() {
		s.Seen = w.redis.ServerNow()
	}
	w.redis.Mini.HSet(rosterKey, id, s.String())
}

// job is what is claimed of the old clients' longest job.
func (o *Old) job() time.Duration { return max(o.honest(), o.Claims.Greatest) }

// loses deletes the record. The operator may have to state the phase then. w.mu
// is held.
func (w *world) loses() {
	if r := w.record(); r.Epoch > 1 {
		w.stated = r.Phase
	}
	w.redis.Mini.Del(phaseKey)
	w.said, w.disorder = migrate.Record{}, 0
}

// disordered begins the plan's disorder.
func (w *world) disordered() []act {
	o := w.plan.Old
	if o == nil || o.Disorder == 0 {
		return nil
	}
	return []act{{o.Disorders, func() {
		d := disorders[o.Disorder-1]
		w.h.sometimes("a disorder")
		w.h.add(Event{Kind: Happened, Proc: All, Op: None, Text: "from now on " + d.name})
		w.mu.Lock()
		defer w.mu.Unlock()
		if d.does != nil {
			w.redis.ServerNow()
			d.does(w)
		}
		w.sight.mu.Lock()
		defer w.sight.mu.Unlock()
		w.sight.sees = d.sees
		w.sight.stops = d.does == nil && d.sees == nil
		switch {
		case d.does != nil && d.from != migrate.NoPhase:
			w.disorder = w.h.now()
		case w.sight.stops:
			w.disorder = w.h.now() + 16*time.Second
		}
	}}}
}

// closed judges that no step is taken in a disorder that was there when the
// verb gathered its facts. w.mu is held.
func (w *world) closed(l *link, was, r migrate.Record) {
	if w.disorder == 0 || w.disorder > l.verb.saw || was.Phase == r.Phase ||
		was.Phase == migrate.Clean {
		return
	}
	d := disorders[w.plan.Old.Disorder-1]
	if d.name == oldRecord && !w.remembered() {
		return
	}
	if d.from == migrate.Observe || r.Phase > was.Phase && r.Phase >= d.from {
		w.spoil(l.p, "a step to "+r.Phase.String()+" is taken, although "+d.name)
	}
}
