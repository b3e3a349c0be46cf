package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Entry is one line of a migration's log: a step, or members that were forgotten.
type Entry struct {
	At        time.Time `json:"at"` // the server's clock
	Epoch     int64     `json:"epoch"`
	From      string    `json:"from,omitempty"` // phases; empty where no step was taken
	To        string    `json:"to,omitempty"`
	Over      bool      `json:"over,omitempty"` // what the step had left to be done was done
	Who       string    `json:"who"`            // the machine on which the verb ran
	Claims    []string  `json:"claims,omitempty"`
	Forgotten []string  `json:"forgotten,omitempty"`
	Lost      bool      `json:"lost,omitempty"` // members may have been lost

	// The shorter namespace out of which this one was carved, or to which its keys
	// were given back.
	CarvedFrom *string `json:"carved_from,omitempty"`
	MergedInto *string `json:"merged_into,omitempty"`
}

// longestLog is how many entries are kept.
const longestLog = 1000

// log adds an entry. The step stands whether or not that succeeds, so a failure
// is a note.
func (d *desk) log(ctx context.Context, r *Report, e Entry) {
	if e.Who, _ = os.Hostname(); e.Who == "" {
		e.Who = "unknown host"
	}
	text, err := json.Marshal(e)
	if err == nil {
		key := record.LogKey(d.opts.Namespace)
		replies := d.mux.Batch(ctx, []wire.Command{wire.Cmd("RPUSH", key, string(text)), wire.Cmd("LTRIM", key, -longestLog, -1)})
		err = replies[0].Err
	}
	if err != nil && r != nil {
		r.note("the log could not be written: %v", err)
	}
}

// logStep says which step was taken, by which claims.
func (d *desk) logStep(ctx context.Context, r *Report, f *facts, now stored, gate *Gate, over bool) {
	e := Entry{At: now.Since, Epoch: now.Epoch, From: f.record.Phase.String(), To: now.Phase.String(), Over: over}
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
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("migrate: entry %d of %s: %w", i+1, record.LogKey(o.Namespace), err)
		}
		out = append(out, e)
	}
	return out, nil
}

// begun is the entry of a record that was written where none was.
func begun(now stored) Entry {
	return Entry{At: now.Since, Epoch: now.Epoch, From: migrate.NoPhase.String(), To: now.Phase.String()}
}
