// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// Finding is one sentence of a gate.
type Finding struct {
	Rule   string `json:"rule"`   // one word that scripts may compare
	Detail string `json:"detail"` // the sentence, for people
	// Seen is the time of the finding by the server's clock; null: none.
	Seen time.Time `json:"seen"`
	// Claimed is true where the finding rests on a claim alone.
	Claimed bool `json:"claimed"`
}

// Gate is the conditions of one step from phase to phase, and what was found of
// them.
type Gate struct {
	To   migrate.Phase `json:"to"`   // phase to which it leads
	Open bool          `json:"open"` // nothing blocks the step
	// Wait is how long the step has to wait if nothing else happens.
	Wait     time.Duration `json:"wait_ms"`
	Blocks   []Finding     `json:"blocks"`   // why it is closed, with what to do
	Evidence []Finding     `json:"evidence"` // what speaks for the step, or is only worth knowing
}

// Claims are the operator's words in place of evidence. An unset field claims
// nothing.
type Claims struct {
	// Lease and Greatest are the smallest and the greatest lease of the old
	// clients. Job is their longest job.
	Lease, Greatest, Job time.Duration

	// LeaseChecked claims that Lease was looked up again where it is
	// configured, although what old clients write looks like a smaller one.
	LeaseChecked bool

	// Spread, Gap, Behind and Ahead are as in [dialect.Terms]: dialect.Zero
	// claims zero. A claimed Behind or Ahead holds for every server that may be
	// promoted.
	Spread, Gap, Behind, Ahead time.Duration

	// Idle is the longest pause between two attempts of one old client: a day
	// for a job that runs at night. A shorter watch cannot measure it.
	Idle time.Duration

	// Gone claims that no old client runs any more, in place of a watched
	// window.
	Gone bool
}

// facts is everything that a gate is judged by.
type facts struct {
	namespace string
	dialect   dialect.Dialect
	claims    Claims
	now       time.Time // by the server's clock
	record    stored
	survey    survey
	sighting  Sighting
	unread    error // why the stored sighting cannot be used; nil where it can
	server    serverInfo
	nonce     string            // random text that the roster got when it began; empty without one
	gone      gone              // count of members that vanished long ago
	acting    map[string]string // members that act without a record, by namespaces that share keys
	reading   look.Reading      // the server's clock and this machine's, when the roster was read
	rights    []rights          // rights of the users in Options.Refused
}

func (f *facts) members() []seat { return f.survey.members }

// serverInfo is what INFO says. A field is empty where INFO does not say it.
type serverInfo struct {
	policy    string // eviction policy
	maxMemory int64
	cluster   bool
	shards    int    // nodes of the cluster that hold keys; 0: unknown
	known     bool   // INFO says maxmemory
	runID     string // changes with each start of a server; empty: unknown
	noRun     string // why runID is unknown
}

// builder collects the findings of a gate. A finding of block closes the gate.
// One of note or claim does not.
type builder struct {
	*facts
	gate Gate
}

// block adds a finding that closes the gate.
func (b *builder) block(rule, format string, args ...any) {
	b.blockAt(time.Time{}, rule, format, args...)
}

// blockFor is block for a reason that time alone may lift, after d.
func (b *builder) blockFor(d time.Duration, rule, format string, args ...any) {
	b.gate.Wait = max(b.gate.Wait, d)
	b.block(rule, format, args...)
}

// note adds a finding that does not close the gate.
func (b *builder) note(rule, format string, args ...any) {
	b.noteAt(time.Time{}, rule, format, args...)
}

// noteAt is note for a finding with a time, by the server's clock.
func (b *builder) noteAt(seen time.Time, rule, format string, args ...any) {
	b.gate.Evidence = append(b.gate.Evidence,
		Finding{Rule: rule, Detail: fmt.Sprintf(format, args...), Seen: seen})
}

// dated is an instant in words, to the second.
func dated(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// blockAt is block for a finding with a time, by the server's clock.
func (b *builder) blockAt(seen time.Time, rule, format string, args ...any) {
	b.gate.Blocks = append(b.gate.Blocks,
		Finding{Rule: rule, Detail: fmt.Sprintf(format, args...), Seen: seen})
}

// judged returns the gate. It is open where nothing blocks it.
func (b *builder) judged() Gate {
	b.gate.Open = len(b.gate.Blocks) == 0
	return b.gate
}

// claim notes a finding that rests on a claim alone.
func (b *builder) claim(rule, format string, args ...any) {
	b.gate.Evidence = append(b.gate.Evidence,
		Finding{Rule: rule, Detail: fmt.Sprintf(format, args...), Claimed: true})
}

// judge returns the gate from the recorded phase to a neighbour. It is a pure
// function of the facts. If the record cannot be used, the gate has no other
// finding.
func judge(f *facts, to migrate.Phase) Gate {
	b := &builder{facts: f, gate: Gate{To: to}}
	if b.recordStands() {
		from := f.record.Phase
		b.pendingDone(to)
		b.lost()
		b.cluster()
		b.registry(from, to)
		b.gate.Blocks = append(b.gate.Blocks, b.overlap()...)
		b.terms(to)
		switch {
		case to == migrate.Dual && from == migrate.Observe:
			b.probes()
			b.oneDialect()
			b.lastTouches(0)
		case to > migrate.Dual && to > from:
			b.window(to)
			b.noLiveStamps()
		case to == migrate.Observe:
			b.noTombstones()
		}
		if to > from {
			b.getsetFirst()
			b.server()
		}
		if to == migrate.Clean {
			b.oneTarget()
		}
		b.strangers(to > migrate.Dual && to > from)
		b.keys()
	}
	return b.judged()
}

// recordStands blocks where there is no record that can be read, or where it
// names another dialect. It reports whether the record can be used: all other
// findings depend on it.
func (b *builder) recordStands() bool {
	switch {
	case b.record.err != nil:
		b.block("record", "the record %s cannot be read: %v", record.Key(b.namespace), b.record.err)
		return false
	case !b.record.exists():
		b.block("record", "there is no record %s: begin with getsetlock migrate init",
			record.Key(b.namespace))
		return false
	case !b.sameDialect():
		return false
	}
	b.noteAt(b.record.Since, "record", "phase %v, epoch %d", b.record.Phase, b.record.Epoch)
	return true
}

// sameDialect blocks where the record names another dialect, whose tombstones
// look different. It reports whether the dialect is the same.
func (b *builder) sameDialect() bool {
	if b.record.Dialect != b.dialect.Name {
		b.block("dialect", "the namespace is recorded for the dialect %s, not for %s: give --dialect %s",
			b.record.Dialect, b.dialect.Name, b.record.Dialect)
		return false
	}
	return true
}

// cluster blocks where the server is a node of a cluster, unless it is known to
// be the only node with keys: keys on other nodes are not seen.
func (b *builder) cluster() {
	if s := b.facts.server; s.cluster && s.shards != 1 {
		b.block("cluster", "the server is a node of a cluster of %s shards, and keys on the others are not seen: give the locks a server of their own before they migrate", orSeveral(s.shards))
	}
}

func orSeveral(n int) string {
	if n == 0 {
		return "several"
	}
	return strconv.Itoa(n)
}

// pendingDone blocks while the last step is not over. One case is allowed: from
// an unfinished way back from sealed, forward to sealed again. The tombstones
// that are left are those that sealed wants.
func (b *builder) pendingDone(to migrate.Phase) {
	switch p := b.record.Pending; {
	case p == migrate.NoPhase, p == migrate.Sealed && to == migrate.Sealed:
	case p == migrate.Sealed:
		b.block("pending", "the way back from sealed is not over: tombstones may still keep old clients out; run back --go until it says that none is left")
	case p == migrate.Clean:
		b.block("pending", "leases from before the new beginning may still run: run init again until it says that old clients may start")
	default:
		b.block("pending", "clean is not over: run clean --go until it says that the migration is over")
	}
}

// server blocks where the server may drop locks and tombstones when its memory
// is full. It also blocks where, in a cluster, the names of some locks leave no
// slot for M.
func (b *builder) server() {
	s := b.facts.server
	switch {
	case !s.known:
		b.note("eviction",
			"the server does not say its eviction policy: make sure by other means that it is noeviction")
	case s.maxMemory > 0 && s.policy != "" && s.policy != "noeviction":
		b.block("eviction", "under maxmemory-policy %s the server may drop locks and tombstones when its memory is full: set noeviction, or give the locks a server of their own", s.policy)
	case s.maxMemory == 0:
		b.note("eviction", "no maxmemory is set, so nothing is dropped (policy %s)", cmp.Or(s.policy, "unknown"))
	default:
		b.note("eviction", "%s", cmp.Or(s.policy, "unknown"))
	}
	if s.cluster && b.survey.Unslotted.count > 0 {
		b.block("slot", "in a cluster no second key can share the slot of %v, whose names have a \"}\" and no hash tag: rename these locks first", b.survey.Unslotted)
	}
}

// keys notes how many values of each kind the keys hold.
func (b *builder) keys() {
	v := b.survey
	b.note("keys", "%d keys looked at: %d stamps of old clients, %d of getsetlock clients, %d guards, %d tombstones, %d other values",
		v.Keys, v.Stamps, v.Ours, v.Guards, v.Tombstones, v.Others)
	if v.NoTTL.count > 0 {
		b.note("ttl", "without a TTL: %v", v.NoTTL)
	}
	if v.Lone.count > 0 {
		b.note("ttl",
			"perhaps stamps of getsetlock clients that lost their TTL, since they lie a day ahead: %v",
			v.Lone)
	}
}

// strangers notes guards and tombstones whose holders are not registered.
// Nothing shows when such a program follows a step. So they block where close
// is set: at steps that shut old clients out.
func (b *builder) strangers(close bool) {
	switch v := b.survey.Strangers; {
	case v.count == 0:
		b.note("guards", "every guard and tombstone in use belongs to a registered member")
	case close:
		b.block("guards", "guards on %v belong to no registered member: a program runs the bridge in a fixed phase, or was forgotten while it ran; let it join, or stop it", v)
	default:
		b.note("guards", "guards on %v belong to no registered member", v)
	}
}

// noTombstones blocks the way back to observe while there are tombstones.
func (b *builder) noTombstones() {
	if n := b.survey.Tombstones; n > 0 {
		b.block("tombstones", "there are %d tombstones, and observe takes them for held locks: run back --go until none is left", n)
	}
}

// getsetFirst blocks where a watcher saw clients that overwrite a guard or a
// tombstone without looking.
func (b *builder) getsetFirst() {
	if seen := b.sighting.GetsetFirst; len(seen) > 0 {
		b.block("getset-first", "clients that send GETSET without a SETNX before it destroy every guard and tombstone: %v; replace them first", seen)
	}
}
