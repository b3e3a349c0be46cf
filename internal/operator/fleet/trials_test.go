// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// trials are those of evidence.md's and protocol.md's rules of gates.
var trials = slices.Concat(ofMembers, ofClaims, ofOldClients, ofServers, ofTargets, ofSteps, ofLostRecords)

// anyPhase is no phase in particular.
const anyPhase = migrate.NoPhase

// shutting are the phases whose next step shuts old clients out, or relies on
// that.
var shutting = []migrate.Phase{migrate.Dual, migrate.Sealed, migrate.Modern}

// each makes a trial of each phase.
func each(phases []migrate.Phase, c trial) (all []trial) {
	for _, p := range phases {
		c.from = p
		all = append(all, c)
	}
	return all
}

var ofMembers = []trial{
	{name: "an orderly fleet"},
	{name: "a member cannot be read", harm: func(l *lab) { l.roster["z"] = "?" }, rules: "members"},
	{name: "a member has vanished", rules: "vanished", harm: func(l *lab) {
		l.last().Seen = l.now.Add(-5 * time.Second)
	}},
	{name: "a heartbeat is late", harm: func(l *lab) { l.last().Seen = l.now.Add(-3900 * time.Millisecond) }},
	{name: "a heartbeat lies in the future", rules: "clock", harm: func(l *lab) {
		l.last().Seen = l.now.Add(2 * time.Second)
	}},
	{name: "a heartbeat in the future stays", rules: "vanished", harm: func(l *lab) {
		l.last().Seen = l.now.Add(longAgo)
		l.options.Go, l.options.Wait = true, 10*time.Second
	}},
	{name: "a heartbeat in the future stays until no lease is left", from: migrate.Observe,
		harm: func(l *lab) {
			l.last().Seen = l.now.Add(longAgo)
			l.options.Go, l.options.Wait, l.options.Forget = true, 80*time.Second, []string{"dead"}
			l.during = func(redistest.Command) { // the others live
				for _, s := range l.members[:2] {
					s.Seen = l.server.ServerNow()
					l.server.Mini.HSet(rosterKey, s.ID, s.String())
				}
			}
		}},
	{name: "a member has seen a later record", rules: "epoch", harm: func(l *lab) { l.last().Epoch++ }},
	{name: "a member has no phase", rules: "phase", harm: func(l *lab) { l.last().Phase = migrate.NoPhase }},
	{name: "a member lags", from: migrate.Sealed, rules: "phase", harm: func(l *lab) {
		l.last().Phase = migrate.Dual
	}},
	{name: "a member writes another dialect", rules: "dialect",
		harm: func(l *lab) { l.last().Dialect = "Other" }},
	{name: "a lease of two phases ago", from: migrate.Modern, rules: "leases", harm: func(l *lab) {
		l.last().Leases = map[migrate.Phase]int{migrate.Dual: 1}
	}},
	{name: "a member leaves with a lease of this phase", harm: func(l *lab) {
		l.last().Leaving = l.now.Add(20 * time.Second)
		l.last().Leases = map[migrate.Phase]int{l.record.Phase: 1}
	}},
	{name: "a member leaves and does not say with what", rules: "leaving", harm: func(l *lab) {
		l.last().Leaving = l.now.Add(20 * time.Second)
	}},
	{name: "a member has not run its scripts", from: migrate.Observe, rules: "probe", harm: func(l *lab) {
		l.last().Probe = ""
	}},
	{name: "nobody has joined", rules: "members", harm: func(l *lab) { l.members = nil }},
	{name: "a member is two phases ahead", from: migrate.Observe, rules: "phase", harm: func(l *lab) {
		l.last().Phase = migrate.Sealed
	}},
	{name: "a member has followed already", from: migrate.Dual, harm: func(l *lab) {
		l.last().Phase = migrate.Sealed
	}},
	{name: "a member of an earlier epoch", from: migrate.Dual, rules: "phase", harm: func(l *lab) {
		l.last().Phase, l.last().Epoch = migrate.Sealed, firstEpoch-1
	}},
	{name: "a later lease on the way back", from: migrate.Sealed, verb: fleet.Back, rules: "leases",
		harm: func(l *lab) { l.last().Leases = map[migrate.Phase]int{migrate.Modern: 1} }},
	{name: "a silent member is to be forgotten too early", rules: "vanished", harm: func(l *lab) {
		l.last().Seen, l.options.Forget = l.now.Add(-20*time.Second), []string{"dead"}
	}},
	{name: "a dead member is forgotten", harm: func(l *lab) {
		l.last().Seen, l.options.Forget = l.now.Add(-40*time.Second), []string{"dead"}
	}, after: func(l *lab) string {
		if l.server.Mini.HGet(rosterKey, "c") != "" {
			return "the dead member is still there"
		}
		return ""
	}},
}

// claim is a trial in which something was seen that contradicts a claim.
func claim(name string, sees func(*lab)) trial { return trial{name: name, harm: sees, rules: "claim"} }

var ofClaims = []trial{
	claim("a smaller lease was seen", func(l *lab) { l.sight.Lease = l.fact(29 * time.Second) }),
	claim("a greater lease was seen", func(l *lab) { l.sight.Greatest = l.fact(61 * time.Second) }),
	claim("a longer job was seen", func(l *lab) { l.sight.Job = l.fact(21 * time.Second) }),
	claim("a longer gap was seen", func(l *lab) { l.sight.Gap = l.fact(time.Second) }),
	claim("clocks are further apart", func(l *lab) { l.sight.Proved = l.fact(2 * time.Second) }),
	claim("a stamp says that a clock is behind", func(l *lab) {
		l.options.Claims.Behind = time.Second
		l.sight.LeastLead, l.sight.MostLead = l.fact(25*time.Second), l.fact(26*time.Second)
	}),
	{name: "a member acts by a refuted bound", rules: "behind", harm: func(l *lab) {
		l.last().Behind, l.sight.BehindProved = time.Second, l.fact(5*time.Second)
	}},
	{name: "a member acts by a bound that holds", harm: func(l *lab) {
		l.last().Behind, l.sight.BehindProved = 6*time.Second, l.fact(5*time.Second)
	}},
	{name: "a smaller lease is guessed", rules: "lease", harm: func(l *lab) {
		l.sight.Lease = fleet.Fact{Time: 20 * time.Second, Basis: "inferred"}
	}},
	{name: "what was written looks like a smaller lease", rules: "lease", harm: func(l *lab) {
		l.sight.LeaseLooks = fleet.Fact{Time: 20 * time.Second, Basis: "inferred"}
	}},
	{name: "that lease was looked up again", harm: func(l *lab) {
		l.sight.LeaseLooks = fleet.Fact{Time: 20 * time.Second, Basis: "inferred"}
		l.options.Claims.LeaseChecked = true
	}},
	{name: "nothing is claimed", from: migrate.Observe, rules: "gap job lease spread", harm: func(l *lab) {
		l.options.Claims = fleet.Claims{}
		l.all(func(s *migrate.MemberState) { s.First = time.Second })
	}},
	{name: "a lease is only guessed", from: migrate.Observe, rules: "lease", harm: func(l *lab) {
		l.options.Claims.Lease, l.options.Claims.Greatest = 0, 0
		l.sight.Lease = fleet.Fact{Time: 30 * time.Second, Basis: "inferred"}
		l.all(func(s *migrate.MemberState) { s.First = time.Second })
	}},
	{name: "a greatest lease is only guessed", from: migrate.Observe, rules: "greatest", harm: func(l *lab) {
		l.options.Claims.Greatest = 0
		l.sight.Greatest = fleet.Fact{Time: 90 * time.Second, Basis: "inferred"}
	}},
	{name: "a greatest lease is claimed, and another one guessed", from: migrate.Observe, harm: func(l *lab) {
		l.sight.Greatest = fleet.Fact{Time: 90 * time.Second, Basis: "inferred"}
	}},
	{name: "a spread is only seen", from: migrate.Observe, rules: "spread", harm: func(l *lab) {
		l.options.Claims.Spread, l.sight.Proved = 0, l.fact(time.Second)
	}},
	{name: "a gap is only seen", from: migrate.Observe, rules: "gap", harm: func(l *lab) {
		l.options.Claims.Gap, l.sight.Gap = 0, l.fact(time.Second)
	}},
	{name: "a job is only seen", from: migrate.Observe, rules: "job", harm: func(l *lab) {
		l.options.Claims.Job, l.sight.Job = 0, l.fact(time.Second)
	}},
	{name: "a pause is only seen", from: migrate.Dual, rules: "idle", harm: func(l *lab) {
		l.options.Claims.Idle, l.sight.Pause = 0, l.fact(time.Minute)
	}},
	{name: "a longer pause was seen", from: migrate.Dual, rules: "claim", harm: func(l *lab) {
		l.sight.Pause = l.fact(longAgo)
	}},
	{name: "a lease is too long for the old clients", from: migrate.Dual, rules: "lease-rule",
		harm: func(l *lab) { l.last().First = 2 * time.Minute }},
	{name: "long leases from modern on", harm: func(l *lab) { l.last().TTL = longAgo }},
}

var ofOldClients = slices.Concat(
	[]trial{
		{name: "a live stamp", from: migrate.Observe, harm: live},
		{name: "a client sends GETSET first", rules: "getset-first", harm: func(l *lab) {
			l.sight.GetsetFirst = []string{"10.0.0.1:1"}
		}},
		{name: "keys in two dialects", from: migrate.Observe, rules: "dialect", harm: func(l *lab) {
			l.sight.Mixed = []string{"k0"}
		}},
		{name: "keys of their own in another dialect", from: migrate.Observe, rules: "dialect",
			harm: func(l *lab) {
				l.speak(dialect.Jedis())
				value, _ := dialect.JedisUUID().Stamp(l.now, time.Minute, someID)
				l.keys["k7"] = value
			}},
		{name: "other programs' SETNX are counted", from: migrate.Dual, harm: func(l *lab) {
			l.sight.Counts, l.sight.LastCalled = true, l.now
		}},
		{name: "a window that is just enough", from: migrate.Dual, harm: func(l *lab) {
			l.sight.Quiet = 10 * time.Minute
		}},
		{name: "an act of a client that comes at night", from: migrate.Dual, rules: "old-clients",
			harm: func(l *lab) {
				l.options.Claims.Idle = 50 * time.Minute
				l.sight.Keys = []fleet.SightedKey{{Key: "k0", LastFailed: l.act(49 * time.Minute)}}
			}},
		{name: "a window of the phase before", from: migrate.Sealed, rules: "window", harm: func(l *lab) {
			l.record.Since = l.now.Add(-time.Minute).UTC()
		}},
		{name: "how long old clients pause is not claimed", from: migrate.Sealed,
			harm: func(l *lab) { l.options.Claims.Idle = 0 }},
	},
	each([]migrate.Phase{migrate.Dual, migrate.Modern},
		trial{name: "how long old clients pause is not claimed",
			rules: "idle", harm: func(l *lab) { l.options.Claims.Idle = 0 }}),
	each([]migrate.Phase{migrate.Dual, migrate.Modern},
		trial{name: "old clients pause for longer than the window",
			rules: "window", harm: func(l *lab) { l.options.Claims.Idle = 2 * longAgo }}),
	each(shutting, trial{name: "a live stamp", harm: live, rules: "live"}),
	each(shutting, trial{name: "a live stamp, and a claim that nobody is left", rules: "live",
		harm: func(l *lab) {
			live(l)
			l.options.Claims.Gone = true
		}}),
	each(shutting, trial{name: "an attempt in vain", rules: "old-clients", harm: func(l *lab) {
		l.sight.Keys = []fleet.SightedKey{{Key: "k0", LastFailed: l.act(time.Minute)}}
	}}),
	each(shutting, trial{name: "a lock was won, and a claim that nobody is left", rules: "old-clients",
		harm: func(l *lab) {
			l.options.Claims.Gone = true
			l.sight.Keys = []fleet.SightedKey{{Key: "k0", LastWrite: l.act(time.Minute)}}
		}}),
	each(shutting, trial{name: "an attempt, and a claim that nobody is left", rules: "old-clients",
		harm: func(l *lab) { l.options.Claims.Gone, l.sight.LastFailed = true, l.act(10*time.Second) }}),
	each(shutting, trial{name: "nobody watches", rules: "window",
		harm: func(l *lab) { l.sight.Observer = "" }}),
	each(shutting, trial{name: "nobody watches, and a claim that nobody is left", harm: func(l *lab) {
		l.sight.Observer, l.options.Claims.Gone = "", true
	}}),
	each(shutting, trial{name: "the watcher has left", rules: "window", harm: func(l *lab) {
		l.sight.Until = l.now.Add(-20 * time.Second)
	}}),
	each(shutting, trial{name: "MONITOR proves nothing any more", rules: "window", harm: func(l *lab) {
		l.sight.QuietUntil = l.now.Add(-20 * time.Second)
	}}),
	each(shutting, trial{name: "a look lies in the future", rules: "window", harm: func(l *lab) {
		l.sight.Until = l.now.Add(2 * time.Second)
	}}),
	each(shutting, trial{name: "MONITOR is refused", rules: "window", harm: func(l *lab) {
		l.sight.Missing = "refused"
	}}),
	each(shutting, trial{name: "a window that is too short", rules: "window", harm: func(l *lab) {
		l.sight.Quiet = time.Minute
	}}),
)

// live lets an old client hold a key.
func live(l *lab) { l.keys["k0"] = l.stamp(20 * time.Second) }

var ofServers = []trial{
	{name: "the server is one of a cluster", rules: "cluster",
		harm: func(l *lab) { l.info["cluster_enabled"] = "1" }},
	{name: "the server is one of three of a cluster", rules: "cluster", harm: func(l *lab) { l.nodes(3) }},
	{name: "the server is all of a cluster", harm: func(l *lab) { l.nodes(1) }},
	{name: "the server evicts keys", rules: "eviction", harm: func(l *lab) {
		l.info["maxmemory"], l.info["maxmemory_policy"] = "1000000", "allkeys-lru"
	}},
	{name: "a policy of eviction without a bound",
		harm: func(l *lab) { l.info["maxmemory_policy"] = "allkeys-lru" }},
	{name: "a name without a slot", from: migrate.Dual, rules: "slot", harm: func(l *lab) {
		l.nodes(1)
		l.keys["ka}b"] = l.tomb()
	}},
	{name: "another namespace owns the keys", rules: "namespace", harm: func(l *lab) {
		l.keys[phaseKey+"0"] = l.record.String()
	}},
	{name: "members of a namespace within act, whose record was lost", rules: "namespace",
		harm: func(l *lab) {
			l.others = []migrate.MemberState{*l.last()}
		}},
	{name: "members of a namespace within were there long ago", harm: func(l *lab) {
		l.others = []migrate.MemberState{*l.last()}
		l.others[0].Seen = l.now.Add(-longAgo)
	}},
	{name: "a stranger holds a guard", from: migrate.Dual, rules: "guards", harm: stranger},
	{name: "a stranger holds a guard before old clients are shut out", from: migrate.Observe, harm: stranger},
	{name: "the roster is another one", rules: "lost", harm: func(l *lab) { l.record.Roster = "another" }},
	{name: "the server has restarted", rules: "lost", harm: func(l *lab) { l.record.Run = "run-0" }},
	{name: "members were lost a short while ago", rules: "lost", harm: func(l *lab) {
		l.record.Lost = look.Reading{Server: l.now.Sub(time.Unix(0, 0)) - 20*time.Second, Run: "run-1"}
	}},
	{name: "members were lost long ago", harm: func(l *lab) {
		l.record.Lost = look.Reading{Server: l.now.Sub(time.Unix(0, 0)) - longAgo, Run: "run-1"}
	}},
	{name: "members were lost on another server", rules: "lost", harm: func(l *lab) {
		l.record.Lost = look.Reading{Server: l.now.Sub(time.Unix(0, 0)) - longAgo, Run: "run-0"}
	}},
	{name: "another server takes over during a look", rules: "lost", harm: func(l *lab) {
		l.once(func(c redistest.Command) bool { return c.Is("HGETALL") }, func() {
			l.server.Info(map[string]string{"run_id": "run-2"})
		})
	}},
}

// nodes makes the server one of so many that have slots.
func (l *lab) nodes(n int) {
	l.info["cluster_enabled"] = "1"
	l.rules = append(l.rules, redistest.Rule{Command: "CLUSTER", Times: -1,
		Do: redistest.Reply(fmt.Sprintf("$14\r\ncluster_size:%d\r\n", n))})
}

// stranger lets a program hold a lock that is no member.
func stranger(l *lab) {
	low, _ := l.options.Dialect.GuardRange()
	text, _ := l.options.Dialect.Guard(low+1, someID)
	guard, _ := l.options.Dialect.EncodeValue(text)
	l.keys["k9"], l.keys[legacy.MarkKey("k9")] = guard, "0123456789012345678901 "+guard+" stranger"
}

// once does something before the first command that is like that.
func (l *lab) once(is func(redistest.Command) bool, do func()) {
	done := false
	l.during = func(c redistest.Command) {
		if !done && is(c) {
			done = true
			do()
		}
	}
}

// stepping is a script that changes the record.
func stepping(c redistest.Command) bool {
	return (c.Is("EVAL") || c.Is("EVALSHA")) && slices.Contains(c, phaseKey)
}

var ofTargets = []trial{
	{name: "a member has another target", from: migrate.Modern, rules: "target", harm: func(l *lab) {
		l.last().Target = "u"
	}},
	{name: "a member has no target", from: migrate.Modern, rules: "target",
		harm: func(l *lab) { l.last().Target = "" }},
	{name: "a member has not seen the target", from: migrate.Modern, rules: "target", harm: func(l *lab) {
		l.last().Sight = ""
	}},
	{name: "a member with another target joins during the step", from: migrate.Modern, rules: "target",
		harm: func(l *lab) {
			l.options.Go = true
			l.once(stepping, func() {
				m := *l.last()
				m.ID, m.Target = "z", "u"
				l.server.Mini.HSet(rosterKey, m.ID, m.String())
			})
		}},
	{name: "a member with another target has left for good", from: migrate.Modern, harm: func(l *lab) {
		l.last().Target, l.last().Leaving = "u", l.now.Add(-time.Second)
	}},
	{name: "the record names the target", from: migrate.Modern, after: keepsTarget},
	{name: "a new beginning keeps the target", from: migrate.Clean, verb: fleet.Init, after: keepsTarget},
	{name: "a member of another target takes no lock in clean", from: migrate.Clean, verb: fleet.CleanUp,
		rules: "target", harm: func(l *lab) {
			l.record.Pending = migrate.Modern
			l.last().Target, l.last().Phase = "u", migrate.NoPhase
		}},
}

// keepsTarget complains about a record that does not name the target.
func keepsTarget(l *lab) string {
	if got := l.recorded().Target; got != "t" {
		return "the record names the target " + got
	}
	return ""
}

// swept complains about a tombstone that is left.
func swept(l *lab) string {
	if l.server.Mini.Exists("k1") {
		return "a tombstone is left"
	}
	return ""
}

// kept complains about a tombstone that is gone.
func kept(l *lab) string {
	if !l.server.Mini.Exists("k1") {
		return "a tombstone is gone"
	}
	return ""
}

var ofSteps = []trial{
	{name: "a lease of sealed after the way back", from: migrate.Dual, verb: fleet.Back, rules: "leases",
		harm: func(l *lab) {
			l.record.Pending, l.last().Leases = migrate.Sealed, map[migrate.Phase]int{migrate.Sealed: 1}
		}},
	{name: "a lease of sealed on the way to observe", from: migrate.Dual, verb: fleet.Back, rules: "leases",
		harm: func(l *lab) { l.last().Leases = map[migrate.Phase]int{migrate.Sealed: 1} }},
	{name: "a stray tombstone", from: migrate.Dual, after: swept, harm: stray},
	{name: "a stray tombstone on a key that is left", from: migrate.Dual, after: swept, harm: func(l *lab) {
		stray(l)
		l.keys[legacy.MarkKey("k1")] = "left 0123456789012345678901"
	}},
	{name: "a tombstone that a lease depends on", from: migrate.Dual, after: kept, harm: func(l *lab) {
		stray(l)
		l.keys[legacy.MarkKey("k1")] = "0123456789012345678901 " + l.tomb() + " a"
	}},
	{name: "a tombstone on the way to observe", from: migrate.Dual, verb: fleet.Back, rules: "tombstones",
		harm: func(l *lab) {
			stray(l)
			l.keys[legacy.MarkKey("k1")] = "0123456789012345678901 " + l.tomb() + " a"
		}},
	{name: "the way back from sealed is not over", from: migrate.Dual, verb: fleet.Back, rules: "pending",
		harm: func(l *lab) { l.record.Pending, l.options.To = migrate.Sealed, migrate.Observe }},
	{name: "forward again, before the way back is over", from: migrate.Dual, harm: func(l *lab) {
		stray(l)
		l.record.Pending = migrate.Sealed
	}},
	{name: "a new beginning is not over", from: migrate.Observe, verb: fleet.Advance, rules: "pending",
		harm: func(l *lab) { l.record.Pending = migrate.Clean }},
	{name: "there is no record", from: migrate.Dual, verb: fleet.Advance, rules: "record",
		harm: func(l *lab) {
			l.record = migrate.Record{}
		}},
	{name: "a record of a later version", from: migrate.Dual, verb: fleet.Advance, rules: "record",
		harm: func(l *lab) { l.record, l.keys[phaseKey] = migrate.Record{}, "gsl/9 phase=dual" }},
	{name: "a record of another dialect", from: migrate.Dual, rules: "dialect", harm: func(l *lab) {
		l.record.Dialect = "Other"
	}},
	{name: "a sweep after clean", from: migrate.Clean, verb: fleet.Sweep, after: swept},
	{name: "a step during a sweep", from: migrate.Clean, verb: fleet.Sweep, fails: true, after: kept,
		harm: func(l *lab) {
			l.options.Go = true
			judged := false // the roster is read last
			l.once(func(c redistest.Command) bool {
				judged = judged || c.Is("HGETALL")
				return judged && c.Is("GETRANGE")
			}, func() {
				next := l.record
				next.Epoch, next.Phase = next.Epoch+1, migrate.Observe
				_ = l.server.Mini.Set(phaseKey, next.String())
			})
		}},
	{name: "a sweep while clean is not over", from: migrate.Clean, verb: fleet.Sweep, rules: "pending",
		after: kept, harm: func(l *lab) { l.record.Pending = migrate.Modern }},
	{name: "a sweep in modern", from: migrate.Modern, verb: fleet.Sweep, rules: "order", after: kept},
	{name: "a new beginning that all follow", from: migrate.Observe, verb: fleet.Init, after: begun,
		harm: again},
	{name: "a new beginning while a lease of clean runs", from: migrate.Observe, verb: fleet.Init,
		rules: "leases",
		after: kept, harm: func(l *lab) {
			again(l)
			l.last().Leases = map[migrate.Phase]int{migrate.Clean: 1}
		}},
	{name: "a new beginning that one does not follow", from: migrate.Observe, verb: fleet.Init,
		rules: "phase",
		after: kept, harm: func(l *lab) {
			again(l)
			l.last().Phase = migrate.Clean
		}},
}

// stray leaves a tombstone.
func stray(l *lab) { l.keys["k1"], l.options.Go = l.tomb(), true }

// again is a new beginning after clean that is not over.
func again(l *lab) {
	stray(l)
	l.record.Pending, l.record.Target = migrate.Clean, "t"
}

// begun complains about a new beginning that is not over.
func begun(l *lab) string {
	if r := l.recorded(); r.Pending != migrate.NoPhase || r.Target != "" {
		return "the new beginning is not over, or keeps the target"
	}
	return swept(l)
}

// lost is a trial of a record that was lost. The members say a phase.
func lost(name, rules string, phase, recorded migrate.Phase, harm func(*lab)) trial {
	return trial{name: name, from: phase, verb: fleet.Init, rules: rules, harm: func(l *lab) {
		l.record = migrate.Record{Phase: phase, Dialect: l.record.Dialect}
		if harm != nil {
			harm(l)
		}
	}, after: func(l *lab) string {
		switch r := l.recorded(); {
		case rules != "" && r.Epoch > 0:
			return "a record is written"
		case rules == "" && (r.Phase != recorded || r.Epoch <= firstEpoch):
			return "the record says " + r.Phase.String()
		case rules == "" && phase == migrate.Clean:
			return keepsTarget(l)
		}
		return ""
	}}
}

// forgetful makes all members silent for so long that they may be forgotten.
func forgetful(l *lab) { l.all(func(s *migrate.MemberState) { s.Phase = migrate.NoPhase }) }

var ofLostRecords = []trial{
	lost("members act by observe", "", migrate.Observe, migrate.Observe, nil),
	lost("members act by modern", "", migrate.Modern, migrate.Modern, nil),
	lost("members act by clean", "", migrate.Clean, migrate.Clean, nil),
	lost("members act by neighbours", "", migrate.Dual, migrate.Dual,
		func(l *lab) { l.last().Phase = migrate.Sealed }),
	lost("members act by phases that exclude nothing", "phase", migrate.Observe, anyPhase, func(l *lab) {
		l.last().Phase = migrate.Sealed
	}),
	lost("all members may have been forgotten", "phase", migrate.Modern, anyPhase, forgetful),
	lost("all may have been forgotten, and the phase is stated", "", migrate.Sealed, migrate.Sealed,
		func(l *lab) {
			forgetful(l)
			l.options.To = migrate.Sealed
		}),
	lost("an earlier phase is stated than members say", "phase", migrate.Modern, anyPhase, func(l *lab) {
		l.options.To = migrate.Observe
	}),
	lost("a later phase is stated than members say", "phase", migrate.Dual, anyPhase, func(l *lab) {
		l.options.To = migrate.Modern
	}),
	lost("members act by clean, with two targets", "target", migrate.Clean, anyPhase, func(l *lab) {
		l.last().Target = "u"
	}),
	lost("a member cannot be read", "members", migrate.Dual, anyPhase, func(l *lab) { l.roster["z"] = "?" }),
	lost("a new beginning was not over", "", migrate.Observe, migrate.Observe, func(l *lab) {
		l.last().Leases = map[migrate.Phase]int{migrate.Clean: 1}
	}),
	lost("nobody is left, and tombstones stand", "tombstones", migrate.Sealed, anyPhase, func(l *lab) {
		l.members = nil
	}),
	lost("another namespace owns the keys", "namespace", migrate.Dual, anyPhase, func(l *lab) {
		l.keys[phaseKey+"0"] = migrate.Record{Epoch: 1, Phase: migrate.Dual, Since: l.now.UTC(),
			Dialect: l.record.Dialect}.String()
	}),
}
