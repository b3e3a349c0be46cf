package fleet

import (
	"fmt"
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Finding is one sentence of a gate.
type Finding struct {
	Rule   string // one word that scripts may compare
	Detail string
	// Seen is since when or at which time it is so, by the server's clock; zero where that says nothing.
	Seen time.Time
	// Claimed: it rests on a human's word alone.
	Claimed bool
}

// Gate is what one step needs and what was found.
type Gate struct {
	To       migrate.Phase
	Open     bool
	Blocks   []Finding // why it is closed, with what to do
	Evidence []Finding
	// Wait is how long the step has to wait for time alone, if nothing else happens.
	Wait time.Duration
}

// Claims are a human's words in place of evidence. An unset field claims
// nothing.
type Claims struct {
	Lease, Greatest, Job time.Duration

	// LeaseChecked claims that Lease was looked up once more where it is configured,
	// although what old clients write looks like a smaller one.
	LeaseChecked bool

	// Spread, Gap, Behind and Ahead are as in [dialect.Terms]: dialect.Zero claims
	// zero. A claimed Behind or Ahead speaks of every server that may be promoted.
	Spread, Gap, Behind, Ahead time.Duration

	// Idle is the longest pause between two attempts of one old client: a day for a
	// job that runs at night. Nobody measures it by watching for less.
	Idle time.Duration

	// Gone claims that no old client runs any more, in place of a watched window.
	Gone bool
}

// facts is everything that a gate is judged by. Nothing else is asked.
type facts struct {
	namespace string
	dialect   dialect.Dialect
	claims    Claims
	now       time.Time // the server's
	record    stored
	survey    survey
	sighting  Sighting
	unread    error // why there is no sighting, though something stands there
	server    serverInfo
	nonce     string       // the roster's
	gone      gone         // the roster's count of members gone for long
	reading   look.Reading // the server's clock and this machine's, when the roster was read
	shorter   *facts       // of the namespace out of which this one was carved, or is to be; nil where there is none
	rights    []rights     // of the users in Options.Refused
}

func (f *facts) members() []seat { return f.survey.members }

// serverInfo is what INFO says; empty words where it says nothing.
type serverInfo struct {
	policy    string // of eviction
	maxMemory int64
	cluster   bool
	shards    int // of the cluster; 0: unknown
	known     bool
	runID     string // which server it is since it was started; empty where nothing says so
	noRun     string // why nothing does
}

// builder collects a gate's sentences.
type builder struct {
	*facts
	gate Gate
}

func (b *builder) block(rule, format string, args ...any) {
	b.gate.Blocks = append(b.gate.Blocks, Finding{Rule: rule, Detail: fmt.Sprintf(format, args...)})
}

// blockFor is a block that time alone may lift, after d.
func (b *builder) blockFor(d time.Duration, rule, format string, args ...any) {
	b.gate.Wait = max(b.gate.Wait, d)
	b.block(rule, format, args...)
}

func (b *builder) note(rule, format string, args ...any) {
	b.noteAt(time.Time{}, rule, format, args...)
}

func (b *builder) noteAt(seen time.Time, rule, format string, args ...any) {
	b.gate.Evidence = append(b.gate.Evidence, Finding{Rule: rule, Detail: fmt.Sprintf(format, args...), Seen: seen})
}

func (b *builder) claim(rule, format string, args ...any) {
	b.gate.Evidence = append(b.gate.Evidence, Finding{Rule: rule, Detail: fmt.Sprintf(format, args...), Claimed: true})
}

// judge is the gate from the recorded phase to a neighbour. It is a pure function of the facts.
func judge(f *facts, to migrate.Phase) Gate {
	b := &builder{facts: f, gate: Gate{To: to}}
	if b.recordStands() {
		from := f.record.Phase
		b.pendingDone(to)
		b.lost()
		b.cluster()
		b.registry(from, to)
		b.overlap()
		b.carvedOut()
		b.terms(to)
		switch {
		case to == migrate.Dual && from == migrate.Observe:
			b.probes()
			b.oneDialect()
			b.lastTouches(0)
		case to > migrate.Dual && to > from:
			b.window(to)
		case to == migrate.Observe:
			b.noTombstones()
		}
		if to > from {
			b.getsetFirst()
			b.server()
		}
		b.strangers(to > migrate.Dual && to > from)
		b.keys()
	}
	b.gate.Open = len(b.gate.Blocks) == 0
	return b.gate
}

// recordStands checks what everything else hangs on.
func (b *builder) recordStands() bool {
	switch {
	case b.record.err != nil:
		b.block("record", "the record %s cannot be read: %v", record.Key(b.namespace), b.record.err)
		return false
	case !b.record.exists():
		b.block("record", "there is no record %s: begin with getsetlock migrate init", record.Key(b.namespace))
		return false
	case !b.sameDialect():
		return false
	}
	b.noteAt(b.record.Since, "record", "phase %v, epoch %d", b.record.Phase, b.record.Epoch)
	return true
}

// sameDialect closes the gate for a dialect that the record does not name: another one's tombstones are none.
func (b *builder) sameDialect() bool {
	if b.record.Dialect != b.dialect.Name {
		b.block("dialect", "the namespace is recorded for the dialect %s, not for %s: give --dialect %s", b.record.Dialect, b.dialect.Name, b.record.Dialect)
		return false
	}
	return true
}

// cluster closes every gate where one node is seen and the others are not.
func (b *builder) cluster() {
	if s := b.facts.server; s.cluster && s.shards != 1 {
		b.block("cluster", "the server is a node of a cluster of %s shards, and what stands on the others is not seen: give the locks a server of their own before they migrate", orSeveral(s.shards))
	}
}

func orSeveral(n int) string {
	if n == 0 {
		return "several"
	}
	return strconv.Itoa(n)
}

// pendingDone lets no step begin before the last one is over. Forward again from an unfinished way
// back is no new road: the tombstones that are left are those that the next phase wants.
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

// server is about what the server itself may do to marks.
func (b *builder) server() {
	s := b.facts.server
	switch {
	case !s.known:
		b.note("eviction", "the server does not tell its eviction policy: make sure by other means that it is noeviction")
	case s.maxMemory > 0 && s.policy != "" && s.policy != "noeviction":
		b.block("eviction", "under maxmemory-policy %s the server may drop locks and tombstones when its memory is full: set noeviction, or give the locks a server of their own", s.policy)
	case s.maxMemory == 0:
		b.note("eviction", "no maxmemory is set, so nothing is dropped (policy %s)", orUnknown(s.policy))
	default:
		b.note("eviction", "%s", orUnknown(s.policy))
	}
	if s.cluster && b.survey.Unslotted.count > 0 {
		b.block("slot", "in a cluster no second key can stand in the slot of %v, which hold a \"}\" and no hash tag: rename these locks first", b.survey.Unslotted)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// keys says what stands on the keys.
func (b *builder) keys() {
	v := b.survey
	b.note("keys", "%d keys looked at: %d stamps of old clients, %d of getsetlock clients, %d guards, %d tombstones, %d other values",
		v.Keys, v.Stamps, v.Ours, v.Guards, v.Tombstones, v.Others)
	if v.NoTTL.count > 0 {
		b.note("ttl", "without a TTL: %v", v.NoTTL)
	}
	if v.Lone.count > 0 {
		b.note("ttl", "perhaps stamps of getsetlock clients that lost their TTL, since they lie a day ahead: %v", v.Lone)
	}
}

// strangers are guards whose writers no gate knows. They close what shuts old clients out, since nobody
// says when such a program follows; elsewhere they are evidence.
func (b *builder) strangers(close bool) {
	switch v := b.survey.Strangers; {
	case v.count == 0:
		b.note("guards", "no guard and no tombstone is held by who is not registered")
	case close:
		b.block("guards", "guards of no registered member on %v: a program runs the bridge in a fixed phase, or was forgotten while it ran; let it join, or stop it", v)
	default:
		b.note("guards", "guards of no registered member on %v", v)
	}
}

func (b *builder) noTombstones() {
	if n := b.survey.Tombstones; n > 0 {
		b.block("tombstones", "%d tombstones stand, and observe takes them for held locks: run back --go until none is left", n)
	}
}

func (b *builder) getsetFirst() {
	if seen := b.sighting.GetsetFirst; len(seen) > 0 {
		b.block("getset-first", "clients that GETSET without a SETNX before it destroy every mark: %v; replace them first", seen)
	}
}
