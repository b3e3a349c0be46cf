package legacy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
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

func TestLeftKeyIsFreeForOldClientsAlone(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	leave(r, g)
	r.wantKeyLeft(g.Token(), gap)
	_, err := r.try("k")
	held := r.wantHeld(err)
	if !held.Vacant || held.Left != gap || held.Owner != "" {
		r.Errorf("%+v", held)
	}
	if want := `key "k": nobody holds it; it is left to old clients for 145 ms`; held.Error() != want {
		r.Errorf("%v, want %s", held, want)
	}
	o, err := r.b.Observe(bg, "k")
	if err != nil {
		r.Fatal(err)
	}
	if _, ok := polite.Token(o.MarkValue); !ok || o.MarkPTTL != gap || o.Ours() {
		r.Errorf("M %q for %v, ours %v", o.MarkValue, o.MarkPTTL, o.Ours())
	}
	if token, bytes, ok := o.Token(); ok {
		r.Errorf("a holder %q with %q", token, bytes)
	}
	r.w.Pass(gap)
	if err := r.take("k").Release(bg); err != nil {
		r.Error(err)
	}
	r.wantLeft("")
}

// A value on M that no release writes counts as held.
func TestValueThatResemblesLeftKeyIsHeld(t *testing.T) {
	r := newRig(t, jedis())
	r.set(keyM, "left nobody")
	r.set("k", "1")
	_, err := r.try("k")
	if held := r.wantHeld(err); held.Vacant {
		r.Errorf("%v", held)
	}
	if r.get(keyM) != "left nobody" {
		r.Errorf("M is %q", r.get(keyM))
	}
}

// A release whose reply was lost is sent again and succeeds.
func TestSecondReleaseOfALeftKeyIsDone(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	r.set(keyM, polite.Value(g.Token())) // as left by a release whose reply was lost
	r.w.Mini.Del("k")
	if err := g.Release(bg); err != nil {
		r.Error(err)
	}
	other := r.b
	r.w.Mini.FlushAll()
	g, err := other.Contract().Try(bg, "k", ttl)
	if err != nil {
		r.Fatal(err)
	}
	r.set(keyM, polite.Value(strings.Repeat("A", 22)))
	var lost *legacy.LostError
	if err := g.Release(bg); !errors.As(err, &lost) || !lost.Mark {
		r.Errorf("a gap of another holder: %v", err)
	}
}

// A release leaves the key to old clients only if it really gave it up: not
// where another client was let in, and not where L was gone.
func TestKeyIsLeftOnlyIfItsValueIsUnchanged(t *testing.T) {
	for _, there := range []string{"", "foreign", "stamp"} {
		r := newRig(t, jedis())
		g := r.take("k")
		switch there {
		case "":
			r.w.Mini.Del("k")
		case "stamp":
			r.set("k", r.stamp(lease))
		default:
			r.set("k", there)
		}
		l := r.get("k")
		if err := g.(backend.Yielder).ReleaseTo(bg, gap); !errors.Is(err, lock.ErrLost) {
			r.Errorf("%q on the key: %v", there, err)
		}
		r.wantLeft(l)
	}
}

// An old client that takes the key has had its turn. Getsetlock clients then
// wait for that client, not for the rest of the gap.
func TestOldClientThatEntersEndsTheGap(t *testing.T) {
	r := newRig(t, jedis())
	leave(r, r.take("k"))
	old := r.stamp(lease)
	r.set("k", old)
	_, err := r.try("k")
	if held := r.wantHeld(err); held.Vacant || held.Stamp.IsZero() {
		r.Errorf("%+v", held)
	}
	r.wantLeft(old)
	r.w.Mini.Del("k")
	g := r.take("k")
	if d := g.(backend.Yielder).YieldFor(0); d != gap {
		r.Errorf("after an old client was seen it owes %v", d)
	}
	r.w.Pass(lease + 1)
	if d := g.(backend.Yielder).YieldFor(0); d != gap { // a span of work
		r.Errorf("it owes %v", d)
	}
}

func TestOldClientIsSeenByAttemptAndByRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want time.Duration
	}{
		{"no old client", func(*rig) {}, 0},
		{"an attempt", func(r *rig) { r.set("k", r.stamp(lease)); _, _ = r.try("k") }, gap},
		{"its own mark was overwritten", func(r *rig) {
			g := r.take("k")
			r.set("k", r.stamp(lease))
			_ = g.Release(bg)
		}, gap},
		{"its own mark was deleted", func(r *rig) {
			g := r.take("k")
			r.w.Mini.Del("k")
			_ = g.Release(bg)
		}, gap},
		{"another getsetlock client", func(r *rig) {
			g := r.take("k")
			_, _ = r.try("k")
			_ = g.Release(bg)
		}, 0},
		{"an orphaned getsetlock stamp", func(r *rig) {
			r.take("k")
			r.w.Mini.Del(keyM)
			_, _ = r.try("k")
		}, 0},
		{"another program", func(r *rig) { r.set("k", "1"); _, _ = r.try("k") }, 0},
	} {
		r := newRig(t, jedis())
		c.do(r)
		r.w.Mini.Del("k")
		r.w.Mini.Del(keyM)
		g := r.take("k")
		if d := g.(backend.Yielder).YieldFor(0); d != c.want {
			r.Errorf("%s: it owes %v, want %v", c.name, d, c.want)
		}
	}
}

func TestKeyThatMeansDoneIsNotLeft(t *testing.T) {
	cfg := jedis()
	cfg.Dialect, cfg.Terms = dialect.Machinery(), dialect.Terms{Lease: lease, Behind: time.Second}
	r := newRig(t, cfg)
	g := r.take("k")
	r.w.Pass(10 * time.Second)
	for _, wish := range []time.Duration{0, time.Second} {
		if d := g.(backend.Yielder).YieldFor(wish); d != 0 {
			r.Errorf("wish %v: it owes %v", wish, d)
		}
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

// At its defaults a Client leaves the key once in a span of work. The next
// attempt waits for the rest of the gap, even a single one.
func TestClientLeavesTheKeyOnceInASpanOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		b, err := legacy.New(w.Pool(), legacy.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := lock.New(b, lock.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		left, began := 0, time.Now()
		for range 100 {
			l, err := c.TryAcquire(bg, "k")
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(50 * time.Millisecond)
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			if v, _ := w.Mini.Get(keyM); v != "" {
				left++
			}
		}
		if left != 4 { // 5 s of work
			t.Errorf("left %d times in %v", left, time.Since(began))
		}
	})
}
