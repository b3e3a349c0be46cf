package dialect

import (
	"strings"
	"time"
)

// Dialect is one kind of old client, as data. It is a plain value: copies share nothing, two can be
// compared with ==, and a changed copy of a preset is a dialect of one's own. Its JSON form has
// snake_case names and durations as Go writes them ("1m30s").
//
// A value built by hand is checked by [Dialect.Validate]; the other methods assume that it passed.
type Dialect struct {
	Name    string `json:"name"`              // unique, compared without case, hyphens and underscores
	Library string `json:"library,omitempty"` // whose code it is: library, versions, file

	// What is written.
	Unit     Unit          `json:"unit"`               // of the number in the value
	Shape    Shape         `json:"shape"`              // of the value's text
	Constant string        `json:"constant,omitempty"` // the value itself, for Shape "constant"
	Slack    time.Duration `json:"-"`                  // added to now + lease; JSON "slack"; whole units
	// CutLease: lease + slack is cut to whole units before it is added, as an integer cast does.
	// Otherwise a lease that is no whole number of units is refused.
	CutLease bool `json:"cut_lease,omitempty"`
	// Restamp: the GETSET writes a stamp made from a new clock reading. Otherwise it repeats the stamp
	// of the SETNX two round trips before, which after a pause is an old one.
	Restamp bool `json:"restamp,omitempty"`

	// How what stands on the key is judged.
	Reader    Reader `json:"reader"`              // what the client's language takes for a number
	Inclusive bool   `json:"inclusive,omitempty"` // expired when now >= value; else when now > value
	// JudgesAnew: the clock is read again for the comparison. Otherwise the reading that made the
	// stamp judges too.
	JudgesAnew bool `json:"judges_anew,omitempty"`
	// OrMine: a value with the client's own uuid counts as expired. Such clients do not exclude each
	// other: the loser of a takeover finds its own uuid at its next poll.
	OrMine     bool           `json:"or_mine,omitempty"`
	Empty      EmptyRule      `json:"empty,omitempty"` // values that the language takes for nil
	OnNil      NilRule        `json:"on_nil"`          // GET returned nil after a lost SETNX
	Unreadable UnreadableRule `json:"unreadable"`      // the value is no number to Reader
	Wins       WinRule        `json:"wins"`            // when a GETSET's reply makes it the holder
	// SetnxAfterHeld: a held or missing value is answered by one more SETNX, after which the attempt
	// ends whatever it returns.
	SetnxAfterHeld bool `json:"setnx_after_held,omitempty"`

	// SleepsToStamp: a client that waits sleeps until the time that stands on the
	// key, and does not look sooner. A getsetlock stamp lies a day beyond the lease,
	// so beside such clients it is refused.
	SleepsToStamp bool `json:"sleeps_to_stamp,omitempty"`

	// Commands beside the GETSET.
	Acquire AcquireCommand `json:"acquire"`
	KeyTTL  TTLRule        `json:"key_ttl"`
	Release ReleaseRule    `json:"release"`
	Renews  RenewRule      `json:"renews"`

	// Times and names.
	Lease time.Duration `json:"-"` // JSON "lease"; the client's default, 0 where it must be given
	Poll  time.Duration `json:"-"` // JSON "poll"; sleep between attempts, 0 where it does not sleep
	// Wait is how long an acquire goes on; JSON "wait". Zero is one attempt.
	Wait time.Duration `json:"-"`
	// WaitsForever: there is no end but success; Wait is then zero.
	WaitsForever bool `json:"waits_forever,omitempty"`
	// CountsSleeps: Wait is compared with the sum of the sleeps, not with a clock, so round trips and
	// pauses do not count. Jedis makes Wait/Poll + 1 attempts and sleeps after the last one too.
	CountsSleeps bool `json:"counts_sleeps,omitempty"`
	// Attempts bounds the attempts of one acquire where the client counts those; 0 does not.
	Attempts int `json:"attempts,omitempty"`
	// KeyPattern turns a lock's name into its key: "lock.NAME", "NAME:lock", plain "NAME".
	KeyPattern    string   `json:"key_pattern"`
	KeyEncoding   Encoding `json:"key_encoding"`
	ValueEncoding Encoding `json:"value_encoding"`
}

// String returns the name.
func (d Dialect) String() string { return d.Name }

// Key returns the key that the old client uses for a lock called name, before encoding: for
// Errorception "lock.stock" for "stock". A caller who was given a key must not call it.
func (d Dialect) Key(name string) string {
	return strings.Replace(d.KeyPattern, "NAME", name, 1)
}

// HasTakeover reports that clients judge the value and take it over with GETSET. Only then do
// settle, takeover margin and the lease rule mean anything.
func (d Dialect) HasTakeover() bool { return d.Wins != WinsNever }

// HasStamp reports that the value carries a time, so that it can be judged at all.
func (d Dialect) HasStamp() bool { return d.Shape == ShapeNumber || d.Shape == ShapeUUIDNumber }

// Excludes reports that the dialect's own clients exclude each other while honest. JedisUUID's do
// not, with no clock at fault.
func (d Dialect) Excludes() bool { return !d.OrMine }

// TwoWritersMaySameBytes reports that two acquisitions may leave the same bytes although neither
// raced the other, so that unchanged bytes prove nothing about an unchanged holder. In stamp dialects
// two acquisitions of one unit of time also write the same bytes; that is bounded by the unit, and not
// meant here.
func (d Dialect) TwoWritersMaySameBytes() bool { return d.Shape == ShapeConstant }

// NeedsSettleEvery reports that ours must settle after every acquisition, not only after a takeover:
// in or-mine dialects a clobberer takes its own uuid at its next poll, whatever the stamp says.
func (d Dialect) NeedsSettleEvery() bool { return d.OrMine }

// NeverReleases reports that the key is left to run out, because its presence means "done".
func (d Dialect) NeverReleases() bool { return d.Release == ReleaseNever }

// ServerExpires reports that the old clients put a TTL on the key, so that the server frees it and
// its clock counts in the fleet's spread.
func (d Dialect) ServerExpires() bool { return d.KeyTTL != TTLNone }

// CountedAttempts is how many attempts one acquire makes on a key that stays held, where that does not
// hang on a clock: 1 without a wait, Attempts where the client counts them, Wait/Poll + 1 where it
// counts its sleeps. It is 0 where a clock or nothing ends the acquire; a negative Wait counts too.
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
