// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

//go:embed fix.lua
var fixLua string

var fixScript = wire.NewScript(3, fixLua)

// FixKind is the kind of change that a fix makes.
type FixKind string

// The kinds of fixes.
const (
	FixDelete FixKind = "delete" // the key is deleted
	// the stamp is replaced by one that expires a lease from now by the fastest
	// client's clock
	FixShorten FixKind = "shorten"
)

// Fix changes one key, if its value is still the one that was looked at and its
// M carries no getsetlock token. The server compares both and makes the change
// in one step.
//
// HAZARD: an old client may have read the value just before the fix deletes it,
// and may send its GETSET just after. That GETSET wins nothing and leaves a
// ghost, which blocks for a lease. The same happens when an old client's
// release meets a takeover.
type Fix struct {
	Do      FixKind `json:"does"` // delete, or shorten: end one lease from now by the fastest client's clock
	Key     string
	Value   string     `json:"value" answer:"bytes"`  // bytes that the key must still hold
	Outcome FixOutcome `json:"outcome" answer:"null"` // done; another word: left alone; null: not tried

	dialect *dialect.Dialect
	lease   time.Duration
	id      string
}

// String returns the question for the person who decides: what the fix would
// do.
func (f Fix) String() string {
	if f.Do == FixDelete {
		return fmt.Sprintf("delete %s if it still holds %s", strconv.Quote(reading.CutKey(f.Key)),
			reading.ShortQuote(f.Value))
	}
	return fmt.Sprintf("let %s end in %s if it still holds %s", strconv.Quote(reading.CutKey(f.Key)),
		roughly(f.lease), reading.ShortQuote(f.Value))
}

// shorten returns the fix for a stamp that no client within Ahead can have
// written. The new stamp still gives the fastest client a whole lease from now,
// so a holder that lives loses nothing. shorten returns nil if Ahead or the
// lease is unknown, or if no pattern says that the key is a lock.
func (x *examiner) shorten(p *keys.Key, d dialect.Dialect, s dialect.Stamp, fits []*dialect.Dialect) *Fix {
	ahead, known := x.aheadOf()
	greatest := x.cfg.greatest()
	if x.cfg.all() || !known || greatest == 0 || len(fits) == 0 {
		return nil
	}
	most := ahead + greatest
	for _, f := range fits {
		// The fastest clock with the greatest lease and slack may have written
		// it.
		if s.Expiry.Sub(p.Now) <= most+f.Slack+f.Unit.Step() {
			return nil
		}
	}
	if step := max(d.Unit.Step(), time.Microsecond); most%step != 0 {
		most += step - most%step
	}
	return &Fix{Do: FixShorten, Key: p.Name, Value: p.Value, dialect: &d, lease: most, id: s.ID}
}

// FixOutcome is the outcome of one fix.
type FixOutcome string

// The outcomes of a fix.
const (
	FixDone    FixOutcome = "done"
	FixChanged FixOutcome = "changed" // the key now holds another value, or none: left alone
	FixOurs    FixOutcome = "ours"    // a getsetlock client now holds the lock: left alone
)

// Apply applies the fixes one after the other and calls done after each.
// It ends at the first fix that fails with an error. If that error is a
// *wire.UnknownError, the fix may have been applied.
func Apply(ctx context.Context, pool *redis.Pool, fixes []Fix, done func(Fix, FixOutcome)) error {
	mux, err := wire.New(pool, wire.Options{})
	if err != nil {
		return err
	}
	defer mux.Close()
	for _, f := range fixes {
		outcome, err := f.apply(ctx, mux)
		if err != nil {
			return fmt.Errorf("key %s: %w", strconv.Quote(reading.CutKey(f.Key)), err)
		}
		done(f, outcome)
	}
	return nil
}

func (f Fix) apply(ctx context.Context, mux *wire.Mux) (FixOutcome, error) {
	value := ""
	if f.Do == FixShorten {
		// Servers before 3.2 let no script write after it has read the clock,
		// so TIME is asked first. The time that passes in between only shortens
		// the lease.
		now, err := wire.Time(mux.Do(ctx, "TIME"))
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
	n, err := redis.Int(mux.Eval(ctx, fixScript, f.Key, legacy.MarkKey(f.Key), lookKey(f.Key), f.Value,
		value))
	if err != nil {
		return "", err
	}
	return []FixOutcome{FixChanged, FixDone, FixOurs}[min(max(n, 0), 2)], nil
}

// lookKey returns the name of the hash in which looks at L are remembered.
func lookKey(l string) string { return look.Key(legacy.MarkKey(l)) }
