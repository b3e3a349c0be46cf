package census

import (
	"time"

	"github.com/getsetlock/getsetlock/skew/offset"
)

// Basis says on what a fact rests.
type Basis string

// The bases, from nothing to the server's own word.
const (
	Unknown  Basis = ""         // nothing is known; the value means nothing
	Default  Basis = "default"  // the dialect's own, as its library ships it
	Claimed  Basis = "claimed"  // a human's word on what can only be refuted by watching
	Given    Basis = "given"    // a human's word on a setting, a lease above all
	Inferred Basis = "inferred" // guessed from what was seen: the round number nearest to it
	Measured Basis = "measured" // follows from what was seen
)

// Source is where an observation came from.
type Source string

// The sources, dearest first.
const (
	SourceMonitor  Source = "monitor"  // every command, with its address, while a burst lasts
	SourcePoll     Source = "poll"     // values, by looking again and again: nobody's name, short holds missed
	SourceTracking Source = "tracking" // that a key changed, as the server tells its watchers; followed by a look
	SourceStats    Source = "stats"    // how often SETNX and GETSET were called, by INFO commandstats
	SourceClients  Source = "clients"  // names and libraries of connections, by CLIENT LIST
)

// Span is a duration that was found out, and how.
type Span struct {
	Value  time.Duration `json:"ns"`
	Basis  Basis         `json:"basis"`
	Source Source        `json:"source,omitempty"`
	At     time.Time     `json:"at,omitzero"`    // server's clock: when it was seen
	Addr   string        `json:"addr,omitempty"` // whose it is
	Key    string        `json:"key,omitempty"`
	Note   string        `json:"note,omitempty"` // what has to be said with it, a guess's warning above all
}

// Known reports that Value means something.
func (s Span) Known() bool { return s.Basis != Unknown }

// HoleReason is why a source saw nothing for a while.
type HoleReason string

// The reasons.
const (
	HoleBudget HoleReason = "budget" // MONITOR between two bursts, or after its share of time or bytes
	HoleAbsent HoleReason = "absent" // no connection, no reply, or the observer itself stood still
	HoleSlow   HoleReason = "slow"   // stopped because the server's latency or our buffer grew
	HoleStep   HoleReason = "step"   // the server's clock stepped against the observer's
	HoleReset  HoleReason = "reset"  // the server's statistics began anew
)

// Hole is a time in which a source saw nothing, by the server's clock.
type Hole struct {
	From   time.Time  `json:"from"`
	Until  time.Time  `json:"until"`
	Reason HoleReason `json:"reason"`
	Detail string     `json:"detail,omitempty"`
}

// Coverage is how long and how well one source looked.
type Coverage struct {
	Source  Source        `json:"source"`
	From    time.Time     `json:"from,omitzero"` // server's clock; zero where it never saw anything
	Until   time.Time     `json:"until,omitzero"`
	Elapsed time.Duration `json:"elapsed_ns"` // Until less From, without the server's steps
	Holes   []Hole        `json:"holes,omitempty"`
	Dropped int           `json:"dropped,omitempty"` // older holes that fell out of memory; a window never reaches back to them
	Events  int64         `json:"events"`
	// Missing is why the source was not used at all or given up, in a sentence with what to do.
	Missing string `json:"missing,omitempty"`
	// Note is what has to be known of a source that works in part, in a sentence.
	Note string `json:"note,omitempty"`
	// Sighted is the time of the youngest marker that came back by MONITOR, in
	// each spelling. What was executed before it has been seen. Zero for every
	// other source, and where none came back.
	Sighted time.Time `json:"sighted,omitzero"`
	// Unproved is why no marker comes back although the source works, in a
	// sentence with what to do.
	Unproved string `json:"unproved,omitempty"`
}

// Act is one thing that a client did to a key.
type Act struct {
	At      time.Time `json:"at"` // server's clock; by polls the first look that showed it
	DB      int       `json:"db"`
	Key     string    `json:"key,omitempty"`
	What    ActKind   `json:"what"`
	Addr    string    `json:"addr,omitempty"` // empty where the source can't name anybody
	Name    string    `json:"name,omitempty"`
	Library string    `json:"library,omitempty"`
	Dialect string    `json:"dialect,omitempty"`
	Value   string    `json:"value,omitempty"` // what stands on the key from then on, cut to 256 bytes
	Source  Source    `json:"source"`
	Script  bool      `json:"script,omitempty"` // inside a script
	Detail  string    `json:"detail,omitempty"`
	// Perhaps: a client of another dialect that writes the same form would have won
	// by it, so that its writer may hold the lock.
	Perhaps bool `json:"perhaps,omitempty"`
}

// ActKind is what a client did.
type ActKind string

// The kinds of acts.
const (
	ActAcquired      ActKind = "acquired"
	ActTakeover      ActKind = "takeover"
	ActLost          ActKind = "lost"           // an attempt on a held key, failed
	ActReleased      ActKind = "released"       // by its holder, in time
	ActClobber       ActKind = "clobber"        // a GETSET that lost replaced a live holder's value
	ActGhost         ActKind = "ghost"          // a GETSET that won nothing left a value that nobody holds
	ActOverrun       ActKind = "overrun"        // a DEL after the own stamp was past, or of another's value
	ActForeignExpire ActKind = "foreign_expire" // a TTL set by somebody who does not hold
	ActDoubleGrant   ActKind = "double_grant"   // won by the own uuid while another held (JedisUUID)
	ActGetsetFirst   ActKind = "getset_first"   // a GETSET without a SETNX before it: destroys every mark
	ActWrote         ActKind = "wrote"          // another write, or one of which only its result was seen
	ActGone          ActKind = "gone"           // missing at a look, by whomever
	ActGuard         ActKind = "guard"          // a guard of ours, or a stranger's token that looks like one
	ActTombstone     ActKind = "tombstone"      // a tombstone of a migration
)

// attempt reports that an old client tried for the lock, with success or not.
func (k ActKind) attempt() bool {
	switch k {
	case ActAcquired, ActTakeover, ActLost, ActClobber, ActGhost, ActDoubleGrant, ActGetsetFirst:
		return true
	}
	return false
}

// Counts are how often what happened. Polls count acquisitions only, and
// as one of them a stamp that stood at the first look.
type Counts struct {
	Acquisitions   int64 `json:"acquisitions"` // takeovers included
	Takeovers      int64 `json:"takeovers"`
	Failed         int64 `json:"failed"` // attempts on a held key
	Releases       int64 `json:"releases"`
	Clobbers       int64 `json:"clobbers"`
	Ghosts         int64 `json:"ghosts"`
	Overruns       int64 `json:"overruns"`
	ForeignExpires int64 `json:"foreign_expires"`
	DoubleGrants   int64 `json:"double_grants"`
	GetsetFirst    int64 `json:"getset_first"`
	Overlaps       int64 `json:"overlaps"`   // two proved to hold at once: an old holder released after a takeover
	Guards         int64 `json:"guards"`     // values seen that read as a guard of ours
	Tombstones     int64 `json:"tombstones"` // tombstones seen
	Unreadable     int64 `json:"unreadable"` // values written that no dialect in question reads
}

// Durations sums many durations up in constant memory.
type Durations struct {
	Count   int64         `json:"count"`
	Longest time.Duration `json:"longest_ns"`
	P50     time.Duration `json:"p50_ns"` // rounded up by at most an eighth
	P99     time.Duration `json:"p99_ns"`
}

// Hold is one time that somebody held a key.
type Hold struct {
	At    time.Time     `json:"at"` // server's clock, of the winning write
	Addr  string        `json:"addr,omitempty"`
	DB    int           `json:"db"`
	Key   string        `json:"key"`
	For   time.Duration `json:"ns"`
	Lease time.Duration `json:"lease_ns"` // 0 where the writer's is not known
	// Source monitor: from the winning write to the DEL. Source poll: at most so long, from the last
	// look before it was there to the first after.
	Source Source `json:"source"`
}

// Gap is a time from a client's clock reading to the server executing the GETSET that carries it.
type Gap struct {
	// AtLeast is proved, whatever the client's clock did: it is counted from the
	// SETNX that carried the same stamp. It refutes a smaller claim.
	AtLeast time.Duration `json:"at_least_ns"`
	At      time.Time     `json:"at"`
	Addr    string        `json:"addr"`
	Key     string        `json:"key"`
}

// Offset is what is known of one writer's clock: client less server.
type Offset struct {
	// Interval is the offset as it was seen: it holds what each single write allows,
	// so the clock lay in it whenever it was read for one of them, whatever it did
	// in between. It assumes that the leases are right and that no attempt takes
	// longer than the gap. The ends may be offset.NoLow and offset.NoHigh; the upper
	// one is, where no gap is claimed.
	offset.Interval
	Writes int64 // how many writes it rests on
	// LeaseGuessed: both ends depend on a guessed lease, so neither is guaranteed.
	LeaseGuessed bool
	// Steady is narrower and assumes more. It is for people; no gate goes by it.
	Steady Steady
	// Shared says why several clients write from the address. Then a step of one
	// clock cannot be told from two clocks. Empty where nothing shows it.
	Shared string
	// NotOwn is what refutes the claim of own connections for this address. Empty
	// where nothing does.
	NotOwn string

	// By single writes, with the usual gap where none is claimed: the clock was
	// ahead by atLeast at one of them, by no more than atMost at another, and by
	// no more than reach at any.
	atLeast, atMost, reach time.Duration
}

// Steady is the offset of a clock that neither steps nor drifts faster than
// [Config.Rate]: what all its writes since its last step allow together. Where
// they allow nothing together, [Writer.Contradictions] names what broke.
type Steady struct {
	offset.Interval           // ends may be offset.NoLow, offset.NoHigh
	At              time.Time // server's clock, of the last write; since then the clock may have gone on
	Writes          int       // how many writes it rests on; 0 where nothing is known
	// LowPPM and HighPPM bound how fast the clock gains on the server, in parts per
	// million, where HasRate.
	LowPPM, HighPPM float64
	HasRate         bool
	// Gap is the longest time from a clock reading to its write that was assumed.
	Gap time.Duration
	// Own: the claim of own connections narrowed the upper end.
	Own bool
}

// Spread is how far the clocks of old clients are apart over the whole watch,
// their steps included.
type Spread struct {
	// Proved: they were at least so far apart, at one time. It refutes a smaller
	// claim. 0 where nothing is proved.
	Proved time.Duration
	// Guaranteed: the clocks behind the writes that were seen were no further apart.
	// offset.NoHigh where that is unknown: without a claimed gap and a lease that is
	// sure nothing is guaranteed. Of clients that wrote nothing nobody can say.
	Guaranteed time.Duration
	// Apart is Proved for people: it goes by guessed leases and a usual gap where
	// these are not given.
	Apart  time.Duration
	Writes int64 // how many writes it rests on
	// Guessed: a lease behind it is a guess, or what is written contradicts it.
	Guessed bool
}

// Sound reports that Guaranteed is a guarantee.
func (s Spread) Sound() bool { return s.Guaranteed != offset.NoHigh }

// Writer is one connection, or what shares its address, that wrote or tried for old locks.
type Writer struct {
	Addr    string // empty for what polls saw: somebody
	Name    string // by CLIENT SETNAME, where the server tells
	Library string // library and version, where the server tells (Redis 7.2 and later)
	User    string
	// Dialect is what it speaks, Also what it could be by its values alone. Basis is Given or Inferred.
	Dialect string
	Also    []string
	Basis   Basis
	Lease   Span
	Offset  Offset
	// Contradictions are why no steady clock wrote all this: steps, two processes, a wrong lease. There
	// are none for a shared address.
	Contradictions []offset.Contradiction
	Counts         Counts
	Holds          Durations
	Waits          Durations // from the first failed attempt of a row to its success or its last attempt
	Gap            *Gap      // the longest; nil without a GETSET
	Keys           []string  // sorted, at most MostWriterKeys
	First, Last    time.Time // server's clock
	LastWrite      *Act
	LastFailed     *Act
	Findings       []Finding
}

// KeyEvidence is what is known of one key.
type KeyEvidence struct {
	DB         int
	Key        string
	Dialects   []string // of who wrote it, sorted; more than one is a mixture
	Counts     Counts
	LastWrite  *Act // by an old client, the last that was seen
	LastFailed *Act
	Longest    *Hold
	NoTTL      bool  // at the last look there was a value without a TTL
	Timeline   []Act // the latest, oldest first, failed attempts left out, at most MostActs
	Earlier    int64 // acts that fell out of Timeline
	FoundLive  Found // by old clients, as far as MONITOR shows
}

// Found is a value that old clients read and let stand. A client that took it
// over would have replaced it.
type Found struct {
	Value string
	Times int64     // 0: nobody read it while MONITOR was on
	Last  time.Time // server's clock
	Addr  string    // of the last reader
}

// Bound says how far old clients' clocks are off to one side of the server's
// clock: behind it, or ahead of it. It is never negative.
//
// HAZARD: it speaks of the clients that wrote during the watch. A client that
// wrote nothing may be further off.
type Bound struct {
	// Span is what may be relied on: measured over a whole window, or claimed and
	// not refuted. Unknown otherwise.
	Span Span
	// AtLeast is proved by the writes that were seen, and refutes a smaller claim.
	// offset.NoLow where nothing proves any.
	AtLeast time.Duration
	// AtMost is the most that the writes seen allow. offset.NoHigh where unknown.
	AtMost time.Duration
	Writes int64 // how many writes both rest on
	// Guessed: a lease behind them was guessed, so neither is proved.
	Guessed bool
}

// Proved is what refutes a smaller claim, 0 for nothing.
func (b Bound) Proved() time.Duration {
	if b.Guessed {
		return 0
	}
	return max(0, b.AtLeast)
}

// Evidence is what was seen, until when. Its lists are sorted.
type Evidence struct {
	// From and Until are the first and last instant seen, by the server's clock.
	From, Until time.Time
	Coverage    []Coverage // one for each source, in the order of the constants

	Dialects []string // names of those seen
	Writers  []Writer // by address; the nameless one of the polls first
	Keys     []KeyEvidence
	Counts   Counts
	Waits    Durations
	// Forgotten counts writers and keys that fell out of memory. Their counts and bounds still are in
	// the sums, their names are gone.
	ForgottenWriters, ForgottenKeys int64

	SmallestLease Span // E
	GreatestLease Span
	LongestGap    Span // g, as far as it was seen: AtLeast of the longest gap
	Gaps          *Gap // the longest
	LongestHold   Span // J
	Holds         []Hold

	// LeaseLooks is a smaller lease than the given one that explains what a client
	// writes better: its lease is that, or its clock is behind by the difference.
	// Nobody but who looks it up can say. Unknown where there is none, and where the
	// lease was looked up once more.
	LeaseLooks Span
	// Spread is of the writers seen. It is no guarantee unless Spread.Sound().
	Spread Spread
	// Behind and Ahead compare clocks with the server's; Spread compares clocks of
	// old clients with each other. None of the three stands in for another.
	Behind, Ahead Bound
	// Run is the run id of the server that Behind and Ahead speak of. Another
	// server's clock is elsewhere, so they are unknown there. Empty if unknown.
	Run string
	// Window is how long the longest unbroken watch of that server lasted up to
	// Until, by polls or by MONITOR. Behind and Ahead count as measured from Idle on.
	Window, Idle time.Duration
	// LongestPause is the longest time between two attempts on one key, whoever
	// made them. A client that tries for the key may pause for longer.
	LongestPause Span
	// ServerSteps are steps of the server's own clock, positive forwards.
	ServerSteps []Hole
	// LongestSafeJob is E + c − Δ − d by skew.Law: by the guaranteed spread (or the claimed one) and the
	// gap seen (or claimed), the least of all dialects seen.
	LongestSafeJob Span

	DoubleGrants []Act    // the latest, at most MostActs
	GetsetFirst  []string // addresses of clients that GETSET first, sorted
	LastWrite    *Act     // the last by an old client, by any source
	LastFailed   *Act
	// LastCall is the last SETNX or GETSET that MONITOR showed on a key that
	// is watched, whatever its value: it may be another program's, or an old
	// client's in a form that nobody named. It counts nowhere but in Quiet.
	LastCall *Act
	// Stats are calls of SETNX and GETSET that the server counted in the window, of whomever; nil
	// without that source.
	Stats *CommandCalls
}

// CommandCalls is what INFO commandstats said.
type CommandCalls struct {
	Setnx, Getset int64     // calls within the window, as far as it was covered
	LastMoved     time.Time // server's clock: the first reading that showed the latest change; zero if none
	// What the server's counts were at the first reading and at the last: a later
	// watch that finds the same counts knows that nobody tried meanwhile.
	FirstSetnx, FirstGetset, LastSetnx, LastGetset int64
}

// The bounds of lists in an Evidence.
const (
	mostActs       = 256
	mostHolds      = 1024
	mostHoles      = 256
	mostWriterKeys = 16
)

// Covered returns how a source did.
func (e *Evidence) Covered(s Source) Coverage {
	for _, c := range e.Coverage {
		if c.Source == s {
			return c
		}
	}
	return Coverage{Source: s, Missing: "not asked for"}
}

// Quiet is for how long a source watched without a hole and nobody was seen to
// try for an old lock. Attempts that MONITOR or polls saw count whichever source
// is asked about. Zero where the source did not watch up to the end. From is the
// instant since when. From and quiet together say until when: for SourceMonitor
// that is the time of the youngest marker that came back, which proves that the
// filter sees this database and these names; late lines make no hole. Where the server's clock and the
// observer's elapsed time disagree by more than a thousandth and 20 ms there is
// a hole, so the two agree on the window as well as that.
//
// Every SETNX and GETSET that the server counted cuts it: those of other
// programs and of other databases too. With SourceMonitor only a SETNX or GETSET
// on a key that is watched does, whoever sent it with whatever value: MONITOR
// shows the key and the database of each command. HAZARD: polls do not see
// attempts that failed; only stats and an unbroken MONITOR prove that there were
// none.
func (e *Evidence) Quiet(s Source) (from time.Time, quiet time.Duration) {
	c := e.Covered(s)
	if c.From.IsZero() || c.Missing != "" {
		return time.Time{}, 0
	}
	from = c.From
	for _, h := range c.Holes {
		from = latest(from, h.Until)
	}
	for _, a := range []*Act{e.LastWrite, e.LastFailed, e.LastCall} {
		if a != nil {
			from = latest(from, a.At)
		}
	}
	if s != SourceMonitor && e.Stats != nil {
		from = latest(from, e.Stats.LastMoved)
	}
	until := c.Until
	if s == SourceMonitor {
		until = c.Sighted
	}
	return from, max(0, until.Sub(from))
}

// mixed lists the keys that more than one dialect wrote.
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
