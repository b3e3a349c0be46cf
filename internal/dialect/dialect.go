// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"strings"
	"time"
)

// Dialect describes one kind of old client as data. It is a plain value: copies
// share nothing, and two can be compared with ==. To make a dialect of your
// own, change a copy of a preset. The JSON form has snake_case names and
// durations as Go writes them ("1m30s").
//
// [Dialect.Validate] checks a value built by hand; the other methods assume
// that it passed.
type Dialect struct {
	Name    string `json:"name"`              // unique name, compared without case, hyphens and underscores
	Library string `json:"library,omitempty"` // source of the code: library, versions, file

	// What is written.
	Unit     Unit   `json:"unit"`               // unit of the number in the value
	Shape    Shape  `json:"shape"`              // form of the value's text
	Constant string `json:"constant,omitempty"` // value itself, for Shape "constant"
	// time added to now + lease, in whole units; JSON "slack"
	Slack time.Duration `json:"-"`
	// StartTime says that the number is the start of a lease of Lease, which a
	// reader adds before it compares. All clients then have that one lease.
	// Otherwise the number is the end of the lease. The bytes do not tell one
	// from the other, so only a named dialect says which it is.
	StartTime bool `json:"start_time,omitempty"`
	// CutLease says that lease + slack is cut to whole units before it is
	// added, as an integer cast does. Otherwise a lease that is not a whole
	// number of units is refused.
	CutLease bool `json:"cut_lease,omitempty"`
	// Restamp says that the GETSET writes a stamp made from a new clock
	// reading. Otherwise it repeats the stamp of the SETNX two round trips
	// before, which after a pause is an old one.
	Restamp bool `json:"restamp,omitempty"`

	// How the value on the key is judged.
	Reader    Reader `json:"reader"`              // what the client's language takes for a number
	Inclusive bool   `json:"inclusive,omitempty"` // expired when now >= value; else when now > value
	// JudgesAnew says that the client reads its clock again for the comparison.
	// Otherwise it judges by the reading that made the stamp.
	JudgesAnew bool `json:"judges_anew,omitempty"`
	// OrMine says that a value with the client's own uuid counts as expired.
	// Such clients do not exclude each other: the client that lost a takeover
	// finds its own uuid at its next poll.
	OrMine bool      `json:"or_mine,omitempty"`
	Empty  EmptyRule `json:"empty,omitempty"` // values that the language takes for nil
	OnNil  NilRule   `json:"on_nil"`          // what follows when GET returns nil after a lost SETNX
	// what follows when the value is not a number to Reader
	Unreadable UnreadableRule `json:"unreadable"`
	Wins       WinRule        `json:"wins"` // which reply to a GETSET makes the client the holder
	// SetnxAfterHeld says that the client answers a held or missing value with
	// one more SETNX. The attempt then ends whatever that returns.
	SetnxAfterHeld bool `json:"setnx_after_held,omitempty"`

	// SleepsToStamp says that a waiting client sleeps until the time on the
	// key, without looking sooner. Since a getsetlock stamp lies a day beyond
	// the lease, Hardened refuses such dialects.
	SleepsToStamp bool `json:"sleeps_to_stamp,omitempty"`

	// Commands other than the GETSET.
	Acquire AcquireCommand `json:"acquire"`
	KeyTTL  TTLRule        `json:"key_ttl"`
	Release ReleaseRule    `json:"release"`
	Renews  RenewRule      `json:"renews"`

	// Times and names.
	Lease time.Duration `json:"-"` // the client's default; 0 where the caller must give it; JSON "lease"
	Poll  time.Duration `json:"-"` // sleep between attempts; 0 where the client does not sleep; JSON "poll"
	// Wait is how long an acquire keeps trying; JSON "wait". Zero is one
	// attempt.
	Wait time.Duration `json:"-"`
	// WaitsForever says that only success ends an acquire; Wait is then zero.
	WaitsForever bool `json:"waits_forever,omitempty"`
	// CountsSleeps says that Wait is compared with the sum of the sleeps, not
	// with a clock, so that round trips and pauses do not count. Jedis makes
	// Wait/Poll + 1 attempts and sleeps after the last one too.
	CountsSleeps bool `json:"counts_sleeps,omitempty"`
	// Attempts is the most attempts of one acquire; 0 where the client does not
	// count them.
	Attempts int `json:"attempts,omitempty"`
	// KeyPattern turns a lock's name into its key: "lock.NAME", "NAME:lock",
	// plain "NAME".
	KeyPattern    string   `json:"key_pattern"`
	KeyEncoding   Encoding `json:"key_encoding"`
	ValueEncoding Encoding `json:"value_encoding"`
}

// String returns the name.
func (d Dialect) String() string { return d.Name }

// Key returns the key that the old client uses for a lock called name, before
// encoding: for Errorception "lock.stock" for "stock". A caller that already
// has a key must not call it.
func (d Dialect) Key(name string) string {
	return strings.Replace(d.KeyPattern, "NAME", name, 1)
}

// HasTakeover reports whether clients judge the value and take it over with
// GETSET. Only then do settle, takeover margin and the lease rule matter.
func (d Dialect) HasTakeover() bool { return d.Wins != WinsNever }

// HasStamp reports whether the value contains a time, so that it can be judged
// at all.
func (d Dialect) HasStamp() bool { return d.Shape == ShapeNumber || d.Shape == ShapeUUIDNumber }

// Excludes reports whether the dialect's own clients exclude each other while
// they are honest. JedisUUID's do not, even with all clocks right.
func (d Dialect) Excludes() bool { return !d.OrMine }

// TwoWritersMaySameBytes reports whether two acquisitions may write the same
// bytes although neither raced the other. Unchanged bytes then do not prove an
// unchanged holder. In stamp dialects two acquisitions within one unit of time
// write the same bytes too; the unit bounds that, and it is not meant here.
func (d Dialect) TwoWritersMaySameBytes() bool { return d.Shape == ShapeConstant }

// NeedsSettleEvery reports whether a getsetlock client must settle after every
// acquisition, not only after a takeover. In or-mine dialects a client that
// overwrote the key takes its own uuid at its next poll, whatever the stamp
// says.
func (d Dialect) NeedsSettleEvery() bool { return d.OrMine }

// NeverReleases reports whether the key is left to run out, because its
// presence means "done".
func (d Dialect) NeverReleases() bool { return d.Release == ReleaseNever }

// ServerExpires reports whether the old clients put a TTL on the key. The
// server then frees it, and the server's clock counts in the fleet's spread.
func (d Dialect) ServerExpires() bool { return d.KeyTTL != TTLNone }

// CountedAttempts returns how many attempts one acquire makes on a key that
// stays held. That is 1 without a wait, Attempts where the client counts
// attempts, and Wait/Poll + 1 where it counts sleeps. It is 0 where the number
// depends on a clock, where the acquire never ends, and for a negative Wait.
func (d Dialect) CountedAttempts() int {
	switch {
	case d.Attempts > 0:
		return d.Attempts
	case d.WaitsForever:
		return 0
	case d.CountsSleeps && d.Wait < 0:
		return 0
	case d.CountsSleeps:
		return int(d.Wait/d.Poll) + 1
	case d.Wait == 0:
		return 1
	}
	return 0
}
