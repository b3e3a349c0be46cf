// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
)

const anna, bert, cleo = reel.Anna, reel.Bert, reel.Cleo

var (
	at, stamp, stampOf         = reel.At, reel.Stamp, reel.StampOf
	spelling, spellings, keyOf = reel.Spelling, reel.Spellings, reel.KeyOf
)

func jedis() []dialect.Dialect { return []dialect.Dialect{dialect.Jedis()} }

// sighted feeds the filter one round of markers, as MONITOR shows them in that
// database. The server counted what MONITOR showed, and extra calls of SETNX
// since the first round. The first round is where a window can begin.
func sighted(t *testing.T, cfg Config, f *filter, database, ms int, extra ...int64) (out []offset.Observed) {
	t.Helper()
	if f.sights == nil {
		f.sights = newSightings(func() time.Duration { return 0 }, reading.KeySpellings(cfg.Dialects))
	}
	nonce := rand.Text()
	name, ok := cfg.scope().Sight(nonce)
	cmds, err := markers(name, f.sights.spellings)
	if err != nil || !ok {
		t.Fatalf("no marker: %v", err)
	}
	f.sights.send(nonce)
	counted := calls{}
	for _, c := range cmds {
		if c.Args[0] == "commandstats" {
			counted = f.calls
		}
		out = f.line(asServer(at(ms).UnixMicro(), database, "10.0.0.9:9", c.Name, c.Args[0].(string)), out)
	}
	for _, n := range extra {
		counted[1] += n
	}
	f.sights.answered(nonce, "run", counted)
	return f.compare(out)
}

// whole returns the events that are whole commands, without calls that only end
// windows.
func whole(events []offset.Observed) []offset.Observed {
	return slices.DeleteFunc(events, func(o offset.Observed) bool {
		return len(o.Args) > 0 && o.Args[0] == reading.Called
	})
}
