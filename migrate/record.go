package migrate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Source says where a time of the old clients' fleet comes from.
type Source byte

// The sources, from the weakest.
const (
	Unknown  Source = '-' // nobody said
	Default  Source = 'd' // the dialect's own, or made from it
	Claimed  Source = 'c' // a human said so
	Measured Source = 'm' // somebody watched
)

// String returns the word that people read.
func (s Source) String() string {
	switch s {
	case Default:
		return "default"
	case Claimed:
		return "claimed"
	case Measured:
		return "measured"
	}
	return "unknown"
}

// Known is a time and where it comes from. The zero Known is one that nobody
// knows; a time of zero whose source is known is a claim or a measurement.
type Known struct {
	Time   time.Duration
	Source Source
}

func (k Known) known() bool {
	return k.Source == Claimed || k.Source == Measured || k.Source == Default
}

func (k Known) String() string {
	if !k.known() {
		return "unknown"
	}
	return fmt.Sprintf("%v (%v)", k.Time, k.Source)
}

// Fleet is what is known of the old clients.
type Fleet struct {
	Lease    Known // E: their smallest lease
	Greatest Known // their greatest
	Spread   Known // S: how far their clocks are apart at most
	Gap      Known // g: the longest time from a clock reading to the GETSET, pauses included
	Job      Known // J: how long a job of theirs holds a lock at most

	// Behind is B, how far the slowest old client's clock is behind the server's
	// at most, and Ahead A, how far the fastest one's is ahead of it. Either may
	// stay unknown: that is slow after a crash, and not unsafe.
	Behind, Ahead Known

	// Server is the run id of the server by whose clock Behind or Ahead was
	// measured; empty where neither was. Under another server such a bound is
	// unknown. A claim speaks of every server that may be promoted.
	Server string
}

// under returns what is known of the fleet beside the server of that run id: a
// bound that was measured by another server's clock is unknown.
func (fl Fleet) under(runID string) Fleet {
	if fl.Server != "" && fl.Server == runID {
		return fl
	}
	for _, k := range []*Known{&fl.Behind, &fl.Ahead} {
		if k.Source == Measured {
			*k = Known{}
		}
	}
	fl.Server = ""
	return fl
}

// Record is what stands on the server about a namespace.
type Record struct {
	Epoch int64 // greater with every change
	Phase Phase

	// Pending is the phase whose remains are not gone yet: Sealed, while tombstones keep old clients out
	// of a fleet that went back to Dual; Modern, while they stand in Clean; Clean, while leases from
	// before a new beginning may run. NoPhase when nothing is.
	Pending Phase

	Since   time.Time // of the last step, by the server's clock, microseconds
	Dialect string    // what the old clients write
	Fleet   Fleet     // as the gate to Dual had it
}

var recordWords = []string{"epoch", "phase", "pending", "since", "dialect", "lease", "greatest", "spread", "gap", "job", "behind", "ahead", "server"}

// String is the record as it stands on the wire.
func (r Record) String() string {
	values := []string{
		fmt.Sprint(r.Epoch), r.Phase.String(), r.Pending.String(), instantText(r.Since), wordText(r.Dialect),
		knownText(r.Fleet.Lease), knownText(r.Fleet.Greatest), knownText(r.Fleet.Spread), knownText(r.Fleet.Gap), knownText(r.Fleet.Job),
		knownText(r.Fleet.Behind), knownText(r.Fleet.Ahead), wordText(r.Fleet.Server),
	}
	var b strings.Builder
	b.WriteString(wireVersion)
	for i, name := range recordWords {
		b.WriteString(" " + name + "=" + values[i])
	}
	return b.String()
}

// ParseRecord reads what [Record.String] writes and nothing else.
func ParseRecord(text string) (Record, error) {
	f, err := words(text, recordWords...)
	if err != nil {
		return Record{}, err
	}
	var in reader
	r := Record{
		Epoch: in.number(f[0]), Phase: in.phase(f[1]), Pending: in.phase(f[2]), Since: in.instant(f[3]), Dialect: in.word(f[4]),
		Fleet: Fleet{
			Lease: in.known(f[5]), Greatest: in.known(f[6]), Spread: in.known(f[7]), Gap: in.known(f[8]), Job: in.known(f[9]),
			Behind: in.known(f[10]), Ahead: in.known(f[11]), Server: in.word(f[12]),
		},
	}
	if in.err == nil && (r.Epoch < 1 || r.Phase == NoPhase || r.String() != text) {
		in.bad("record", text)
	}
	return r, in.err
}

// claim is the field of [dialect.Terms] that says k: unset where it is unknown.
func (k Known) claim() time.Duration {
	if !k.known() {
		return 0
	}
	return dialect.Claim(k.Time)
}

func knownText(k Known) string {
	if !k.known() {
		return string(rune(Unknown))
	}
	return millisText(k.Time) + string(rune(k.Source))
}

func (r *reader) known(text string) Known {
	if text == string(rune(Unknown)) || text == "" {
		return Known{}
	}
	k := Known{r.millis(text[:len(text)-1]), Source(text[len(text)-1])}
	if !k.known() {
		r.bad("source", text)
	}
	return k
}

//go:embed step.lua
var stepLua string

var stepScript = wire.NewScript(1, stepLua)

// stored is a record as it was read: its bytes are what a change is compared with.
type stored struct {
	Record
	bytes string // empty if there is none
	err   error  // it cannot be read
}

func (s stored) exists() bool { return s.bytes != "" }

func readStored(value any, err error) (stored, error) {
	text, err := redis.String(value, err)
	if errors.Is(err, redis.ErrNil) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, err
	}
	s := stored{bytes: text}
	s.Record, s.err = ParseRecord(text)
	return s, nil
}

// errRaced says that somebody else changed the record first.
var errRaced = errors.New("migrate: the record changed meanwhile")

// change replaces the record that was read by another, if it still is that one. A reply that does not
// come is asked for by reading: the bytes say whether the change was made, since its epoch and time are
// its own.
func change(ctx context.Context, mux *wire.Mux, namespace string, was stored, next Record) (stored, error) {
	text := next.String()
	reply, err := mux.Eval(ctx, stepScript, recordKey(namespace), was.bytes, text)
	var unknown *wire.UnknownError
	if errors.As(err, &unknown) {
		now, again := readStored(mux.Do(ctx, "GET", recordKey(namespace)))
		if again != nil || now.bytes != text {
			return now, fmt.Errorf("migrate: it is not known whether the step was taken; nothing is half done: look again with status: %w", err)
		}
		return now, nil
	}
	if err != nil {
		return was, err
	}
	if done, _ := redis.Int(reply, nil); done != 1 {
		return was, errRaced
	}
	return stored{Record: next, bytes: text}, nil
}
