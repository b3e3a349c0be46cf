// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
)

// Entry is one line of a migration's log: a step, or members that were
// forgotten.
type Entry struct {
	At    time.Time `json:"at"`    // the server's clock
	Epoch int64     `json:"epoch"` // number of steps so far, this one included
	// phase before the step; absent where no step was taken
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`   // phase after the step, likewise
	Over bool   `json:"over,omitempty"` // nothing of the step is left to be done
	Who  string `json:"who"`            // host name of the machine that ran the verb
	// flags by which the operator claimed what was not seen
	Claims    []string `json:"claims,omitempty"`
	Forgotten []string `json:"forgotten,omitempty"` // members that were taken out of the registry
	Lost      bool     `json:"lost,omitempty"`      // members may have been missing from the roster
}

// longestLog is the number of entries that are kept.
const longestLog = 1000

// log adds an entry. A failure becomes a note in the report, since the step is
// taken whether or not the log says so.
func (d *desk) log(ctx context.Context, r *Report, e Entry) {
	if e.Who, _ = os.Hostname(); e.Who == "" {
		e.Who = "unknown host"
	}
	text, err := json.Marshal(e)
	if err == nil {
		key := record.LogKey(d.opts.Namespace)
		replies := d.mux.Batch(ctx, []wire.Command{
			wire.Cmd("RPUSH", key, string(text)), wire.Cmd("LTRIM", key, -longestLog, -1)})
		err = replies[0].Err
	}
	if err != nil && r != nil {
		r.note("the log could not be written: %v", err)
	}
}

// logStep logs a step with the claims that its gate used.
func (d *desk) logStep(ctx context.Context, r *Report, f *facts, now stored, gate *Gate, over bool) {
	e := Entry{At: now.Since, Epoch: now.Epoch, From: f.record.Phase.String(), To: now.Phase.String(),
		Over: over}
	if gate != nil {
		for _, f := range gate.Evidence {
			if f.Claimed {
				e.Claims = append(e.Claims, f.Rule+": "+f.Detail)
			}
		}
	}
	d.log(ctx, r, e)
}

// Log returns what was done in a namespace, oldest first, at most a thousand
// entries.
func Log(ctx context.Context, pool *redis.Pool, o Options) ([]Entry, error) {
	d, err := open(pool, o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	lines, err := redis.Strings(d.mux.Do(ctx, "LRANGE", record.LogKey(o.Namespace), 0, -1))
	if err != nil {
		return nil, d.refused(err)
	}
	var out []Entry
	for i, line := range lines {
		var e Entry
		if err := record.Decode(line, &e); err != nil {
			return nil, fmt.Errorf("migrate: entry %d of %s: %w", i+1, record.LogKey(o.Namespace), err)
		}
		out = append(out, e)
	}
	return out, nil
}

// begun is the entry of a namespace's first record.
func begun(now stored) Entry {
	return Entry{At: now.Since, Epoch: now.Epoch, From: migrate.NoPhase.String(), To: now.Phase.String()}
}
