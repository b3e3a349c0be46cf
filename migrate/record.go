// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/record"
)

// Source says where a time of the old clients comes from.
type Source byte

// The sources, from the weakest.
const (
	Unknown Source = iota // nothing says it
	Default               // the dialect's, or computed from it
	Claimed               // the operator says so
)

// sourceLetters are the sources on the wire, in their order.
const sourceLetters = "-dc"

// String returns the word for people.
func (s Source) String() string {
	switch s {
	case Default:
		return "default"
	case Claimed:
		return "claimed"
	}
	return "unknown"
}

// Known is a time and where it comes from. The zero Known is unknown; a time of
// zero with a known source is a claim of zero. Nothing that was measured is
// ever a Known: a measurement contradicts claims and permits nothing.
type Known struct {
	Time   time.Duration
	Source Source
}

func (k Known) String() string {
	if k.Source == Unknown {
		return "unknown"
	}
	return fmt.Sprintf("%v (%v)", k.Time, k.Source)
}

// Fleet is what is known of the old clients.
type Fleet struct {
	Lease    Known // E: smallest lease
	Greatest Known // greatest lease
	Spread   Known // S: clock spread, how far clocks are apart at most
	Gap      Known // g: the longest time from a clock reading to the GETSET, pauses included
	Job      Known // J: longest time that a job holds a lock
	Idle     Known // longest pause between two attempts of one old client

	// Behind is B, how far the slowest old client's clock is behind the
	// server's at most. Ahead is A, how far the fastest old client's clock is
	// ahead of it at most. Either may be unknown, which is safe but slow after
	// a crash.
	Behind, Ahead Known
}

// Terms are the old clients' times as package dialect computes with them. An
// unknown time is unset: Behind and Ahead then stay unknown, and the other
// fields take their default there. A time that is known to be zero is
// dialect.Zero.
func (fl Fleet) Terms() dialect.Terms {
	said := func(k Known) Known {
		if k.Source == Default {
			return Known{}
		}
		return k
	}
	return dialect.Terms{
		Lease: said(fl.Lease).Time, Greatest: said(fl.Greatest).Time, Spread: said(fl.Spread).claim(),
		Gap:    said(fl.Gap).claim(),
		Behind: said(fl.Behind).claim(), Ahead: said(fl.Ahead).claim(),
	}
}

// claim is k as a field of [dialect.Terms], unset where k is unknown.
func (k Known) claim() time.Duration {
	if k.Source == Unknown {
		return 0
	}
	return dialect.Claim(k.Time)
}

// Record is what the server stores about a namespace.
type Record struct {
	Epoch int64 // grows with every step
	Phase Phase

	// Pending is the phase that the last step left, until that step is over:
	// Sealed, while tombstones may keep old clients out of a fleet that went
	// back to Dual; Modern, until every member has followed to Clean and no
	// lease of Modern runs; Clean, while leases from before a new beginning may
	// run. NoPhase where the step is over.
	Pending Phase

	Since   time.Time // time of the last step, by the server's clock, microseconds
	Dialect string    // what the old clients write
	Fleet   Fleet     // times of the old clients, as the gate of the last step had them

	// SawBehind and SawAhead are how far the clock of some old client was seen
	// behind the server's, or ahead of it, at least; zero: nothing was seen.
	// They void every smaller bound, that of a running member too, and permit
	// nothing.
	SawBehind, SawAhead time.Duration

	// Roster is the nonce of the roster that the last verb saw, and Run the run
	// id of its server; empty where that is unknown. Another nonce or run id
	// means that members may be missing from the roster.
	Roster, Run string

	// Every and TTL are the greatest time between heartbeats and the greatest
	// lease that a member has said. A member raises them before its first lease
	// and before a longer one.
	Every, TTL time.Duration

	// Lost is when a verb found that members may be missing. The zero Reading
	// means that none are.
	Lost look.Reading

	// Evidence is the time from which on it counts what was seen of old
	// clients; zero where all of it counts.
	Evidence time.Time

	// Target names what members compose their locks with. It is set by the step
	// to Clean, where every member has to name the same one, and stays until
	// the leases of Clean are over after a new beginning. Then a member that
	// names another takes no lock. Empty: none has.
	Target string
}

var recordWords = []string{
	"epoch", "phase", "pending", "since", "dialect", "lease", "greatest", "spread", "gap", "job", "idle",
	"behind", "ahead", "sawbehind", "sawahead",
	"roster", "run", "every", "ttl", "lost", "evidence",
}

// String is the record's text on the wire.
func (r Record) String() string {
	values := []string{
		fmt.Sprint(r.Epoch), r.Phase.String(), r.Pending.String(), record.Instant(r.Since),
		record.Word(r.Dialect),
		knownText(r.Fleet.Lease), knownText(r.Fleet.Greatest), knownText(r.Fleet.Spread),
		knownText(r.Fleet.Gap), knownText(r.Fleet.Job), knownText(r.Fleet.Idle),
		knownText(r.Fleet.Behind), knownText(r.Fleet.Ahead), sawText(r.SawBehind), sawText(r.SawAhead),
		record.Word(r.Roster), record.Word(r.Run), record.Millis(r.Every), record.Millis(r.TTL),
		readingText(r.Lost), record.MaybeInstant(r.Evidence),
	}
	return targetLine(recordWords, values, len(recordWords), r.Target)
}

// ParseRecord reads what [Record.String] writes and nothing else.
func ParseRecord(text string) (Record, error) {
	f, target, err := targetWords(text, recordWords, len(recordWords))
	if err != nil {
		return Record{}, err
	}
	var in record.Reader
	r := Record{
		Epoch: in.Number(f[0]), Phase: readPhase(&in, f[1]), Pending: readPhase(&in, f[2]),
		Since: in.Instant(f[3]), Dialect: in.Word(f[4]),
		Fleet: Fleet{
			Lease: readKnown(&in, f[5]), Greatest: readKnown(&in, f[6]), Spread: readKnown(&in, f[7]),
			Gap: readKnown(&in, f[8]), Job: readKnown(&in, f[9]),
			Idle:   readKnown(&in, f[10]),
			Behind: readKnown(&in, f[11]), Ahead: readKnown(&in, f[12]),
		},
		SawBehind: readSaw(&in, f[13]), SawAhead: readSaw(&in, f[14]),
		Roster: in.Word(f[15]), Run: in.Word(f[16]), Every: in.Millis(f[17]), TTL: in.Millis(f[18]),
		Lost: readReading(&in, f[19]), Evidence: in.MaybeInstant(f[20]),
		Target: in.Word(target),
	}
	if in.Err == nil && (r.Epoch < 1 || r.Phase == NoPhase || r.String() != text) {
		in.Bad("record", text)
	}
	return r, in.Err
}

// sawText is a lower bound in milliseconds; "-" is none.
func sawText(d time.Duration) string {
	if d <= 0 {
		return record.None
	}
	return record.Millis(d)
}

func readSaw(r *record.Reader, text string) time.Duration {
	if text == record.None {
		return 0
	}
	return r.Millis(text)
}

func knownText(k Known) string {
	if k.Source == Unknown {
		return sourceLetters[:1]
	}
	return record.Millis(k.Time) + sourceLetters[k.Source:k.Source+1]
}

func readKnown(r *record.Reader, text string) Known {
	if text == sourceLetters[:1] || text == "" {
		return Known{}
	}
	last := len(text) - 1
	k := Known{r.Millis(text[:last]), Source(max(0, strings.IndexByte(sourceLetters, text[last])))}
	if k.Source == Unknown {
		r.Bad("source", text)
	}
	return k
}

// readingText is the server's time, its run id, and the boot id and uptime in
// milliseconds of the machine that read it.
func readingText(r look.Reading) string {
	if r == (look.Reading{}) {
		return record.None
	}
	return strings.Join([]string{
		record.Instant(time.Unix(0, 0).Add(r.Server)), record.Word(r.Run), record.Word(r.Boot),
		strconv.FormatInt(r.Up.Milliseconds(), 10),
	}, "/")
}

func readReading(r *record.Reader, text string) look.Reading {
	if text == record.None {
		return look.Reading{}
	}
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		r.Bad("reading", text)
		return look.Reading{}
	}
	return look.Reading{
		Server: r.Instant(parts[0]).Sub(time.Unix(0, 0)), Run: r.Word(parts[1]), Boot: r.Word(parts[2]),
		Up: time.Duration(r.Signed(parts[3])) * time.Millisecond,
	}
}
