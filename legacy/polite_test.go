// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const gap = 145 * time.Millisecond // for a poll of 100 ms

func leave(r *rig, g backend.Grant) {
	r.Helper()
	if err := g.(backend.Yielder).ReleaseTo(bg, gap); err != nil {
		r.Fatalf("Leave: %v", err)
	}
}

// wantKeyLeft checks that no client holds the key, and that M says so for the
// rest of the gap.
func (r *rig) wantKeyLeft(token string, left time.Duration) {
	r.Helper()
	if r.exists("k") || r.get(keyM) != polite.Value(token) || r.ttlOf(keyM) != left.Milliseconds() {
		r.Errorf("L %q, M %q for %d ms", r.get("k"), r.get(keyM), r.ttlOf(keyM))
	}
}

// CompareAndDelete deletes what is held. A key left to old clients is not held.
func TestCompareAndDeleteIgnoresLeftKey(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	leave(r, g)
	for _, value := range []string{"left", g.Token()} {
		if d, err := r.b.CompareAndDelete(bg, "k", value); err != nil || d.Any() {
			r.Errorf("%s: %+v, %v", value, d, err)
		}
	}
	r.wantKeyLeft(g.Token(), gap)
	r.set("k", g.Token())
	if d, err := r.b.CompareAndDelete(bg, "k", g.Token()); err != nil || !d.Lock || d.Mark {
		r.Errorf("%+v, %v", d, err)
	}
	r.wantKeyLeft(g.Token(), gap)
}
