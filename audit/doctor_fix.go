package audit

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

//go:embed doctor_fix.lua
var fixLua string

var fixScript = wire.NewScript(3, fixLua)

// FixKind is what a fix does.
type FixKind string

// The fixes.
const (
	FixDelete  FixKind = "delete"  // the key goes
	FixShorten FixKind = "shorten" // the stamp is replaced by one that ends a lease from now, by the fastest client's clock
)

// Fix changes one key, if its value still is the one that was looked at and no token of ours stands beside it.
// Both are compared and the change is made in one step on the server.
//
// HAZARD: an old client that read the value just before it is deleted may send its GETSET just after.
// Such a GETSET wins nothing and leaves a ghost, which blocks for a lease; it is the same that follows when
// an old client's release meets a takeover.
type Fix struct {
	Do    FixKind
	Key   string
	Value string // bytes that must still stand there

	dialect dialect.Dialect
	lease   time.Duration
	id      string
}

// String says what would be done, for the person who is asked.
func (f Fix) String() string {
	if f.Do == FixDelete {
		return fmt.Sprintf("delete %s if it still holds %s", strconv.Quote(cutKey(f.Key)), reading.ShortQuote(f.Value))
	}
	return fmt.Sprintf("let %s end in %s if it still holds %s", strconv.Quote(cutKey(f.Key)), roughly(f.lease), reading.ShortQuote(f.Value))
}

// shorten makes the fix of a stamp that no client within Ahead can have written.
// From now on the fastest client still finds a whole lease in it, so that a
// holder that lives loses nothing. It is nil where Ahead or the lease is not
// known, or where no pattern says that the key is a lock.
func (x *examiner) shorten(p *probedKey, d dialect.Dialect, s dialect.Stamp, fits []*dialect.Dialect) *Fix {
	ahead, known := x.aheadOf()
	greatest := x.cfg.greatest()
	if x.cfg.all() || !known || greatest == 0 || len(fits) == 0 {
		return nil
	}
	most := ahead + greatest
	for _, f := range fits {
		// Written by the fastest clock, by a client with the greatest lease and slack.
		if s.Expiry.Sub(p.now) <= most+f.Slack+f.Unit.Step() {
			return nil
		}
	}
	if step := max(d.Unit.Step(), time.Microsecond); most%step != 0 {
		most += step - most%step
	}
	return &Fix{Do: FixShorten, Key: p.key, Value: p.value, dialect: d, lease: most, id: s.ID}
}

// FixOutcome is what became of a fix.
type FixOutcome string

// The outcomes.
const (
	FixDone    FixOutcome = "done"
	FixChanged FixOutcome = "changed" // another value stands there by now, or none: left alone
	FixOurs    FixOutcome = "ours"    // a token of ours stands beside it by now: left alone
)

// ApplyFixes makes the changes one after the other and tells of each. It ends at the first that
// could not be tried; an *wire.UnknownError then says that it may have been made.
func ApplyFixes(ctx context.Context, pool *redis.Pool, fixes []Fix, done func(Fix, FixOutcome)) error {
	mux, err := wire.New(pool, wire.Options{})
	if err != nil {
		return err
	}
	defer mux.Close()
	for _, f := range fixes {
		outcome, err := f.apply(ctx, mux)
		if err != nil {
			return fmt.Errorf("key %s: %w", strconv.Quote(cutKey(f.Key)), err)
		}
		done(f, outcome)
	}
	return nil
}

func (f Fix) apply(ctx context.Context, mux *wire.Mux) (FixOutcome, error) {
	value := ""
	if f.Do == FixShorten {
		// Servers before 3.2 let no script write that has read the clock, so it is asked before: what
		// passes in between only makes the lease shorter by it.
		now, err := serverTime(wire.Reply(mux.Batch(ctx, []wire.Command{wire.Cmd("TIME")})[0]))
		if err != nil {
			return "", err
		}
		text, err := f.dialect.Stamp(now, f.lease, f.id)
		if err == nil {
			value, err = f.dialect.EncodeValue(text)
		}
		if err != nil {
			return "", err
		}
	}
	n, err := redis.Int(mux.Eval(ctx, fixScript, f.Key, legacy.MarkKey(f.Key), lookKey(f.Key), f.Value, value))
	if err != nil {
		return "", err
	}
	return []FixOutcome{FixChanged, FixDone, FixOurs}[min(max(n, 0), 2)], nil
}

// lookKey is the hash in which looks at L are remembered.
func lookKey(l string) string { return look.Key(legacy.MarkKey(l)) }
