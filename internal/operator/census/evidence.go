// SPDX-License-Identifier: Apache-2.0

package census

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// Basis says what a fact rests on.
type Basis string

// The bases, from the weakest to the strongest.
const (
	Unknown  Basis = ""         // nothing is known; ignore the value
	Default  Basis = "default"  // the dialect's default, as its library ships it
	Claimed  Basis = "claimed"  // a person's statement that a watch can only refute
	Given    Basis = "given"    // a person's statement about a setting, mainly a lease
	Inferred Basis = "inferred" // guessed from what was seen: the nearest round number
	Measured Basis = "measured" // follows from what was seen
)

// Source is where an observation came from.
type Source string

// The sources, the most expensive first.
const (
	SourceMonitor Source = "monitor" // every command, with its address, while a burst lasts
	SourcePoll    Source = "poll"    // values, by repeated looks: no names, and short holds are missed
	// which keys changed, as the server reports by client-side tracking; a look
	// follows
	SourceTracking Source = "tracking"
	SourceStats    Source = "stats"   // how often SETNX and GETSET were called, from INFO commandstats
	SourceClients  Source = "clients" // names and libraries of connections, from CLIENT LIST
)

// Span is a duration and how it was found.
type Span struct {
	Value  time.Duration
	Basis  Basis
	Source Source
	At     time.Time // when it was seen, by the server's clock
	Addr   string    // the client that it is about
	Key    string
	Note   string // what must be said with it, mainly a warning about a guess
}

// Known reports whether Value means something.
func (s Span) Known() bool { return s.Basis != Unknown }

// Bounded reports whether Value is known and not a bound that bounds nothing.
func (s Span) Bounded() bool { return s.Known() && s.Value < offset.NoHigh/2 }

// JSON returns Value, and nil where it is not bounded.
func (s Span) JSON() any {
	if !s.Bounded() {
		return nil
	}
	return s.Value
}

// HoleReason is why a source saw nothing for a time.
type HoleReason string

// The reasons of holes.
const (
	HoleBudget HoleReason = "budget" // MONITOR was off between two bursts, or had used up its time or bytes
	HoleAbsent HoleReason = "absent" // no connection, no reply, or the observer itself was stopped
	HoleSlow   HoleReason = "slow"   // MONITOR was stopped because the server's latency or a buffer grew
	HoleStep   HoleReason = "step"   // the server's clock stepped against the observer's
	HoleReset  HoleReason = "reset"  // the server's statistics were reset
	HoleCounts HoleReason = "counts" // the server counted other calls than MONITOR showed
)

// Hole is a time in which a source saw nothing, by the server's clock.
type Hole struct {
	From   time.Time  `json:"from"`                 // beginning
	Until  time.Time  `json:"until"`                // end
	Reason HoleReason `json:"reason"`               // budget, absent, slow, step, reset or counts
	Detail string     `json:"detail" answer:"null"` // for people; null: nothing to add
}

// Coverage says how long and how completely one source watched.
type Coverage struct {
	Source Source    `json:"source"` // monitor, poll, tracking, stats or clients
	From   time.Time `json:"from"`   // first event, by the server's clock; null: none
	Until  time.Time `json:"until"`  // last event, likewise
	Events int64     `json:"events"` // number of events
	// Missing is why the source was not used or was given up, with what to do.
	Missing string        `json:"missing" answer:"null"`
	Holes   []Hole        `json:"holes"` // times in which it saw nothing
	Elapsed time.Duration // Until minus From, without steps of the server's clock
	// Note says what to know about a source that works only in part.
	Note string
	// Sighted is the instant up to which MONITOR showed every call that the
	// server counted, and markers on the watched names in each spelling. Zero
	// for every other source, and if nothing is proved.
	Sighted time.Time
	since   time.Time // when the unbroken time up to Sighted began
	// Unproved is why no marker comes back although the source works, with what
	// to do.
	Unproved string
}

// Act is one action of a client on a key.
type Act struct {
	At      time.Time // by the server's clock; from polls: the first look that showed it
	DB      int
	Key     string
	What    ActKind
	Addr    string // empty if the source does not show addresses
	Name    string
	Library string
	Dialect string
	Value   string // the key's value from then on, cut to 256 bytes
	Detail  string
	// Perhaps: a client of another dialect that writes the same form would have
	// won by this act, so its writer may hold the lock.
	Perhaps bool
}

// ActKind is the kind of an act.
type ActKind string

// The kinds of acts.
const (
	ActAcquired ActKind = "acquired"
	ActTakeover ActKind = "takeover"
	ActLost     ActKind = "lost"     // a failed attempt on a held key
	ActReleased ActKind = "released" // by its holder, before its stamp was past
	ActClobber  ActKind = "clobber"  // a losing GETSET replaced a live holder's value
	ActGhost    ActKind = "ghost"    // a losing GETSET left a value although no client holds
	// a DEL by a holder whose stamp was past, or of another client's value
	ActOverrun       ActKind = "overrun"
	ActForeignExpire ActKind = "foreign_expire" // a TTL set by a client that does not hold
	ActDoubleGrant   ActKind = "double_grant"   // won by its own uuid while another client held (JedisUUID)
	ActGetsetFirst   ActKind = "getset_first"   // a GETSET without a SETNX before it: destroys every value
	ActWrote         ActKind = "wrote"          // another write, or a write of which only the result was seen
	ActGone          ActKind = "gone"           // found missing by a look, by whatever client
	// a guard of a getsetlock client, or a token that looks like one
	ActGuard     ActKind = "guard"
	ActTombstone ActKind = "tombstone" // a tombstone of a migration
	// a call that may be an attempt of a client in an unnamed form; Detail
	// names the command
	ActCalled ActKind = "called"
)

// attempt reports whether an old client tried for the lock, with success or
// not.
func (k ActKind) attempt() bool {
	switch k {
	case ActAcquired, ActTakeover, ActLost, ActClobber, ActGhost, ActDoubleGrant, ActGetsetFirst:
		return true
	}
	return false
}

// Counts says how often each act happened. Polls count acquisitions only; a
// stamp that was there at the first look counts as one.
type Counts struct {
	Acquisitions int64 `json:"acquisitions"` // takeovers included
	Takeovers    int64 `json:"takeovers"`    // of past stamps, by GETSET
	Failed       int64 `json:"failed"`       // attempts on a held key
	Releases     int64 `json:"releases"`     // by the holder, before its stamp was past
	Clobbers     int64 `json:"clobbers"`     // losing GETSETs that replaced a live holder's value
	// losing GETSETs that left a value although no client holds
	Ghosts         int64 `json:"ghosts"`
	Overruns       int64 `json:"overruns"`        // releases of a past stamp, or of another client's value
	ForeignExpires int64 `json:"foreign_expires"` // TTLs set by a client that does not hold
	// won by a client's own uuid while another client held
	DoubleGrants int64 `json:"double_grants"`
	// GETSETs without a SETNX before, which destroy every value
	GetsetFirst int64 `json:"getset_first"`
	// two clients proved to hold at once: a holder released after another had
	// won
	Overlaps   int64 `json:"overlaps"`
	Guards     int64 `json:"guards"`     // values seen that read as guards of getsetlock clients
	Tombstones int64 `json:"tombstones"` // tombstones seen
	Unreadable int64 `json:"unreadable"` // values written that none of the dialects reads
}

// Durations summarizes many durations in constant memory.
type Durations struct {
	Count   int64
	Longest time.Duration
	P50     time.Duration // rounded up by at most a tenth
	P99     time.Duration
}

// JSON returns the fields, null for unknown ones.
func (d Durations) JSON() any {
	doc := struct {
		Count   int64          `json:"count"`      // number of durations
		P50     *time.Duration `json:"p50_ms"`     // half of them were no longer; null: there was none
		P99     *time.Duration `json:"p99_ms"`     // 99 of 100 were no longer
		Longest *time.Duration `json:"longest_ms"` // the longest
	}{Count: d.Count}
	if d.Count > 0 {
		doc.P50, doc.P99, doc.Longest = &d.P50, &d.P99, &d.Longest
	}
	return doc
}

// Hold is one time for which a client held a key.
type Hold struct {
	At    time.Time // instant of the winning write, by the server's clock
	Addr  string
	DB    int
	Key   string
	For   time.Duration
	Lease time.Duration // the writer's lease; 0: unknown
	// Source says how For was measured. Monitor: from the winning write to the
	// DEL. Poll: an upper bound, from the last look before the hold to the
	// first look after it.
	Source Source
}

// Gap is a time from a client's clock reading to the execution of the GETSET
// that carries it.
type Gap struct {
	// AtLeast is proved whatever the client's clock did, since it is counted
	// from the SETNX that carried the same stamp. It refutes a smaller claim.
	AtLeast time.Duration
	At      time.Time
	Addr    string
	Key     string
}

// Offset is what is known of one writer's clock: the client's clock minus the
// server's.
type Offset struct {
	// Interval contains the offset at every write that was seen, whatever the
	// clock did in between: it contains what each single write allows. It
	// assumes that the leases are right and that no attempt takes longer than
	// the gap. Its ends may be offset.NoLow and offset.NoHigh; the upper end is
	// NoHigh if no gap is claimed.
	offset.Interval
	Writes int64 `json:"writes"` // number of writes that Interval rests on
	// LeaseGuessed: both ends depend on a guessed lease, so neither is
	// guaranteed.
	LeaseGuessed bool `json:"lease_guessed"`

	// Bounds from single writes, with the usual gap if none is claimed: the
	// clock was ahead by atLeast at one write, by no more than atMost at
	// another, and by no more than reach at any.
	atLeast, atMost, reach time.Duration
}

// Spread is how far the old clients' clocks are apart over the whole watch,
// including their steps.
type Spread struct {
	// Proved: the clocks were at least this far apart at one time. It refutes a
	// smaller claim. 0: nothing is proved.
	Proved time.Duration
	// Guaranteed: the clocks of the writes that were seen were no further
	// apart. It is offset.NoHigh if that is unknown: a guarantee needs a
	// claimed gap and a certain lease. Clients that wrote nothing are not
	// covered.
	Guaranteed time.Duration
	// Apart is Proved for people: it uses guessed leases and a usual gap if
	// none are given.
	Apart time.Duration
	// Leads is how far apart such leads of stamps were at one time, as in
	// [Bound].Lead.
	Leads  time.Duration
	Writes int64 // number of writes that it rests on
	// Guessed: a lease used here is a guess, or what clients write contradicts
	// it.
	Guessed bool
}

// Sound reports whether Guaranteed is a guarantee.
func (s Spread) Sound() bool { return s.Guaranteed != offset.NoHigh }

// JSON returns both bounds, null for unknown ones.
func (s Spread) JSON() any {
	doc := struct {
		// the clocks were at least so far apart; null: nothing is proved
		Proved *time.Duration `json:"proved_ms"`
		// the clocks that wrote were no further apart; null without --gap, or
		// by a guessed or doubted lease
		Guaranteed time.Duration `json:"guaranteed_ms"`
	}{Guaranteed: s.Guaranteed}
	if s.Sound() || s.Proved > 0 {
		doc.Proved = &s.Proved
	}
	return doc
}

// Writer is a connection that wrote old locks or tried for them, or all clients
// that share its address.
type Writer struct {
	Client
	// Dialect is the dialect that it speaks. Also are others that its values
	// fit.
	Dialect string   `json:"dialect" answer:"null"`
	Also    []string `json:"also"`
	Lease   Span     `json:"lease_ms"` // what it adds to its clock
	// Starts: no time that it wrote was ahead of the server's clock by more
	// than a second (or half the given lease) when it was written. So the times
	// are no ends of leases, or its clock is behind by about a lease.
	Starts bool
	Offset Offset `json:"offset"`
	// Steps are the latest jumps of its clock, at most 8; none for a shared
	// address. They are an alarm for people: they assume that no attempt takes
	// longer than the gap.
	Steps []offset.Step `json:"clock_steps"`
	// Shared says why several clients must be writing from the address; null
	// if nothing shows that. Then a step of one clock cannot be told from two
	// clocks.
	Shared string    `json:"shared" answer:"null"`
	Holds  Durations `json:"holds"`
	// Waits are from the first failed attempt in a row to the success or the
	// last attempt.
	Waits  Durations `json:"waits"`
	Counts Counts    `json:"counts"`
	Gap    *Gap      // the longest gap; nil: it sent no GETSET
	Keys   []string  `json:"keys" answer:"bytes"` // sorted; at most 16
	Last   time.Time `json:"last_seen"`           // last act, by the server's clock
	Acts
	Findings []Finding `json:"findings"`
}

// Client is what CLIENT LIST says of a connection.
type Client struct {
	Addr    string `json:"addr" answer:"null"`          // null: the unknown clients that polls saw
	Name    string `json:"name" answer:"bytes,null"`    // as set by CLIENT SETNAME, if the server reports it
	Library string `json:"library" answer:"bytes,null"` // with its version, since Redis 7.2
}

// Acts are the last acts of old clients; nil where none was seen.
type Acts struct {
	LastWrite  *Act // the last write, from any source
	LastFailed *Act // the last attempt that failed
}

// KeyEvidence is what is known of one key.
type KeyEvidence struct {
	DB       int
	Key      string
	Dialects []string // dialects of its writers, sorted; more than one is a mixture
	Counts   Counts
	Acts
	NoTTL     bool  // the last look found a value without a TTL
	Timeline  []Act // the latest acts, oldest first, without failed attempts; at most 256
	FoundLive Found // what old clients read and did not take over, as far as MONITOR shows
}

// Found is a value that old clients read and did not take over. Taking it over
// would have replaced it.
type Found struct {
	Value string
	Times int64     // number of reads; 0: no client read it while MONITOR was on
	Last  time.Time // the last read, by the server's clock
	Addr  string    // address of the last reader
	Still bool      // the key still had the value when it was last seen
}

// Bound says how far old clients' clocks are off to one side of the server's
// clock: behind it, or ahead of it. It is never negative.
//
// HAZARD: it covers only the clients that wrote during the watch. A client that
// wrote nothing may be further off.
type Bound struct {
	// Span is the claim, if nothing that was seen refutes it. Otherwise it is
	// unknown. What was seen never replaces a claim.
	Span Span
	// AtLeast follows from the writes that were seen, and refutes a smaller
	// claim. offset.NoLow: nothing is known.
	AtLeast time.Duration
	// Unless says what would explain the writes as well: a doubted lease, or an
	// attempt that takes longer than usual, where no gap is claimed. Then
	// AtLeast is no proof. It refutes a claim all the same, until the lease is
	// confirmed or a gap is claimed. Empty: nothing would.
	Unless string
	Writes int64 // number of writes that AtLeast rests on
	// Guessed: a lease used for it was guessed, so nothing is proved.
	Guessed bool
	// Lead is how far ahead of the server's clock a stamp was when it was
	// written, less the dialect's slack: the least for Behind, the most for
	// Ahead. It assumes no lease and no gap, so that AtLeast follows from it
	// once both are claimed. offset.NoLow: nothing is known.
	Lead time.Duration
}

// JSON returns AtLeast, null where it is no proof.
func (b Bound) JSON() any {
	var doc struct {
		// proved; null where nothing is: by a guessed lease, and of the slowest
		// clock also without --gap or by a doubted lease
		AtLeast *time.Duration `json:"at_least_ms"`
	}
	if !b.Guessed && b.Unless == "" {
		doc.AtLeast = &b.AtLeast
	}
	return doc
}

// Proved returns the bound that refutes a smaller claim; 0: nothing is proved.
func (b Bound) Proved() time.Duration {
	if b.Guessed {
		return 0
	}
	return max(0, b.AtLeast)
}

// Evidence is everything that was seen up to Until. Its lists are sorted.
type Evidence struct {
	// From and Until are the first and the last instant seen, by the server's
	// clock.
	From, Until time.Time
	Coverage    []Coverage // one per source, in the order of the constants

	Dialects []string // names of the dialects seen
	Writers  []Writer // sorted by address; the unknown ones of the polls first
	Keys     []KeyEvidence
	Counts   Counts
	Waits    Durations
	// ForgottenWriters and ForgottenKeys count those that were dropped from
	// memory. Their counts and bounds are still in the sums, but their names
	// are gone.
	ForgottenWriters, ForgottenKeys int64

	Times
	Clocks

	GetsetFirst []string // addresses of clients that send GETSET without SETNX, sorted
	Acts
	// LastCall is the last call on a watched key that MONITOR showed, by a
	// client that is no getsetlock client: a write that could take the lock, or
	// a read that waiters send, whatever its value. It may come from another
	// program, or from an old client in an unnamed form. Only Quiet uses it.
	LastCall *Act
	// Counted: the server said how often SETNX and GETSET were called, by any
	// client. LastMoved is the first reading that showed the latest change, by
	// the server's clock; zero: no change.
	Counted   bool
	LastMoved time.Time
}

// Times are the leases, jobs and pauses of old clients.
type Times struct {
	SmallestLease Span // E
	GreatestLease Span
	// LeaseLooks is a lease smaller than the given one that explains better
	// what a client writes: either that is its lease, or its clock is behind by
	// the difference. Only a look at its configuration can tell. Unknown if
	// there is none, and if LeaseChecked is set.
	LeaseLooks  Span
	LongestGap  Span // g, as far as it was seen: AtLeast of Gaps
	Gaps        *Gap // the longest gap
	LongestHold Span // J
	Holds       []Hold
	// LongestPause is the longest time between two attempts on one key, by any
	// clients. A single client may pause for longer.
	LongestPause Span
	// LongestSafeJob is E + c − Δ − d from skew.Law, with the guaranteed spread
	// (or the claimed one) and the gap seen (or claimed). It is the least of
	// all dialects seen.
	LongestSafeJob Span
}

// Clocks is how far clocks are off.
type Clocks struct {
	// Spread covers the writers that were seen. It is a guarantee only if
	// Spread.Sound().
	Spread Spread
	// Behind and Ahead compare old clients' clocks with the server's; Spread
	// compares them with each other. None of the three replaces another.
	Behind, Ahead Bound
	// Run is the run id of the server that Behind and Ahead are about; empty:
	// unknown. They say nothing about another server, whose clock is a
	// different one.
	Run string
	// ServerSteps are steps of the server's clock, positive if forward.
	ServerSteps []Hole
}

// Limits of the lists in an Evidence.
const (
	mostActs       = 256
	mostHolds      = 1024
	mostHoles      = 256
	mostWriterKeys = 16
)

// Covered returns the coverage of a source. If the source was not used, its
// Missing says so.
func (e *Evidence) Covered(s Source) Coverage {
	for _, c := range e.Coverage {
		if c.Source == s {
			return c
		}
	}
	return Coverage{Source: s, Missing: "not asked for"}
}

// Quiet returns for how long MONITOR watched without a hole while no client was
// seen to try for an old lock, and since when. Attempts that polls saw count
// too. quiet is 0 if nothing is proved.
//
// from plus quiet is the end of the window: the instant of the watch's newest
// INFO at which MONITOR had shown every call that the server counted, since the
// INFO before. Late lines make no hole. If the server's clock and the
// observer's elapsed time disagree by more than a thousandth plus 20 ms, there
// is a hole. So both agree on the window's length to that precision.
//
// MONITOR shows the key and the database of each command. So calls elsewhere do
// not end the window, and any call on a watched key that could be an attempt
// does, whatever its value, unless a getsetlock client sent it.
//
// No other source proves a window: polls do not see failed attempts, and the
// server's counts name no key, and not every command that takes a lock.
func (e *Evidence) Quiet() (from time.Time, quiet time.Duration) {
	c := e.Covered(SourceMonitor)
	if c.From.IsZero() || c.Missing != "" {
		return time.Time{}, 0
	}
	from = latest(c.From, c.since)
	for _, h := range c.Holes {
		from = latest(from, h.Until)
	}
	for _, a := range []*Act{e.LastWrite, e.LastFailed, e.LastCall} {
		if a != nil {
			from = latest(from, a.At)
		}
	}
	return from, max(0, c.Sighted.Sub(from))
}

// mixed returns the keys that clients of more than one dialect wrote.
func (e *Evidence) mixed() []KeyEvidence {
	var out []KeyEvidence
	for _, k := range e.Keys {
		if len(k.Dialects) > 1 {
			out = append(out, k)
		}
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
