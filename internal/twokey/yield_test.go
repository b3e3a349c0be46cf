// SPDX-License-Identifier: Apache-2.0

package twokey_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
)

const gap = 145 * time.Millisecond // for a poll of 100 ms

// yielding are the strategies alongside which old clients wait for a release.
var yielding = []strategy{stamp, guard}

func (r *rig) leave(g *twokey.Grant) {
	r.Helper()
	if err := g.ReleaseTo(bg, gap); err != nil {
		r.Fatalf("ReleaseTo: %v", err)
	}
}

// By no strategy is a gap taken for a holder, nor does a client enter in it.
func TestLeftKeyIsFreeForOldClientsAlone(t *testing.T) {
	each(t, yielding, func(r *rig) {
		g := r.take(r.engine())
		r.leave(g)
		r.wantKeys("", polite.Value(g.Token()))
		if left := r.left(keyM); left != gap {
			r.Errorf("left for %v", left)
		}
		for _, by := range all {
			p := r.engine()
			p.by = by.Strategy
			held := r.held(p)
			if !held.Vacant || held.Left != gap || held.Owner != "" || held.Final {
				r.Errorf("%s: %+v", by.name, held)
			}
			if want := `key "k": nobody holds it; it is left to old clients for 145 ms`; held.Error() != want {
				r.Errorf("%v, want %s", held, want)
			}
			o, err := p.Observe(bg, "k")
			if _, _, holder := o.Token(); err != nil || holder || o.MarkPTTL != gap || o.Ours() {
				r.Errorf("%s: %+v, %v", by.name, o, err)
			}
		}
		r.w.Pass(gap)
		r.release(r.take(r.engine()))
		r.wantKeys("", "")
	})
}

// Only a gap ends when an old client is on L. What no release writes is held,
// and a holder that lost L keeps M until its job has stopped (rule 8).
func TestValueThatResemblesLeftKeyIsHeld(t *testing.T) {
	for _, m := range []string{"left nobody", ""} {
		each(t, yielding, func(r *rig) {
			p := r.engine()
			r.take(p)
			if m != "" {
				r.set(keyM, m)
			}
			whole := r.get(keyM)
			for _, l := range []string{"1", r.stamp(time.Minute)} {
				r.set("k", l)
				if held := r.held(p); held.Vacant {
					r.Errorf("%v", held)
				}
				r.wantKeys(l, whole)
			}
		})
	}
}

// A release whose reply was lost is sent again and succeeds.
func TestSecondReleaseOfALeftKeyIsDone(t *testing.T) {
	each(t, yielding, func(r *rig) {
		g := r.take(r.engine())
		r.set(keyM, polite.Value(g.Token())) // as left by a release whose reply was lost
		r.del("k")
		r.release(g)
		r.wantKeys("", polite.Value(g.Token()))
		r.del(keyM)
		g = r.take(r.engine())
		r.set(keyM, polite.Value(strings.Repeat("A", 22)))
		if lost := r.wantLost(g.Release(bg)); !lost.Mark {
			r.Errorf("a gap of another holder: %v", lost)
		}
	})
}

// A release leaves the key to old clients only if it really gave it up: not
// where another client was let in, and not where L was gone.
func TestKeyIsLeftOnlyIfItsValueIsUnchanged(t *testing.T) {
	for _, l := range []string{"", "foreign", "stamp"} {
		each(t, yielding, func(r *rig) {
			g := r.take(r.engine())
			if l == "stamp" {
				l = r.stamp(lease)
			}
			r.del("k")
			if l != "" {
				r.set("k", l)
			}
			if err := g.ReleaseTo(bg, gap); !errors.Is(err, lock.ErrLost) {
				r.Errorf("%q on the key: %v", l, err)
			}
			r.wantKeys(l, "")
		})
	}
}

// An old client that takes the key has had its turn. Getsetlock clients then
// wait for that client, not for the rest of the gap.
func TestOldClientThatEntersEndsTheGap(t *testing.T) {
	each(t, yielding, func(r *rig) {
		p := r.engine()
		r.leave(r.take(p))
		old := r.stamp(lease)
		r.set("k", old)
		if held := r.held(p); held.Vacant || held.Stamp.IsZero() {
			r.Errorf("%+v", held)
		}
		r.wantKeys(old, "")
		r.del("k")
		g := r.take(p)
		if d := g.YieldFor(0); d != gap {
			r.Errorf("after an old client was seen it owes %v", d)
		}
		r.w.Pass(lease + 1)
		if d := g.YieldFor(0); d != gap { // a span of work
			r.Errorf("it owes %v", d)
		}
	})
}

func TestOldClientIsSeenByAttemptAndByRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig, p *program)
		want time.Duration
	}{
		{"no old client", func(*rig, *program) {}, 0},
		{"an attempt", func(r *rig, p *program) { r.set("k", r.stamp(lease)); r.held(p) }, gap},
		{"its own mark was overwritten", func(r *rig, p *program) {
			g := r.take(p)
			r.set("k", r.stamp(lease))
			_ = g.Release(bg)
		}, gap},
		{"its own mark was deleted", func(r *rig, p *program) {
			g := r.take(p)
			r.del("k")
			_ = g.Release(bg)
		}, gap},
		{"another getsetlock client", func(r *rig, p *program) {
			g := r.take(p)
			r.held(p)
			_ = g.Release(bg)
		}, 0},
		{"an orphaned mark", func(r *rig, p *program) {
			r.take(p)
			r.del(keyM)
			r.held(p)
		}, 0},
		{"another program", func(r *rig, p *program) { r.set("k", "1"); r.held(p) }, 0},
	} {
		each(t, yielding, func(r *rig) {
			p := r.engine()
			c.do(r, p)
			r.del("k")
			r.del(keyM)
			if d := r.take(p).YieldFor(0); d != c.want {
				r.Errorf("%s: it owes %v, want %v", c.name, d, c.want)
			}
		})
	}
}

// A tombstone keeps old clients out, and where the key means "done" they have
// nothing to wait for.
func TestKeyIsLeftOnlyWhereOldClientsPoll(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.Machinery()} {
		each(t, []strategy{stamp, guard, sealing, alone}, func(r *rig) {
			want := time.Duration(0)
			if r.by.Strategy <= twokey.Guard && !d.NeverReleases() {
				want = gap
			}
			g := r.take(r.engine(speaks(d)))
			if got := g.YieldFor(0); got != 0 {
				r.Errorf("it owes %v at once", got)
			}
			r.w.Pass(1015 * time.Millisecond)
			if got := g.YieldFor(0); got != want {
				r.Errorf("%s: it owes %v", d.Name, got)
			}
			if got := g.YieldFor(time.Second); (got == time.Second) != (want > 0) {
				r.Errorf("%s: wished for a second, it owes %v", d.Name, got)
			}
		})
	}
}
