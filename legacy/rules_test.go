// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// The stamp lies a day beyond the lease. L ends with M. Where old clients set a
// TTL too, L ends later than M, which tells it from an old client's value.
func TestStampOutlivesItsKeyByADay(t *testing.T) {
	inclusive := dialect.Page() // whose stamps end a second before lease and clock say
	inclusive.Name, inclusive.Slack, inclusive.Inclusive = "inclusive", 0, true
	for _, d := range append(dialect.Presets(), inclusive) {
		if !d.HasStamp() {
			continue
		}
		r := newRig(t, legacy.Config{Dialect: d})
		r.w.StepServer(999 * time.Millisecond) // the worst moment within a second
		r.take("k")
		o, err := r.b.Observe(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		if !d.NeedsSettleEvery() && o.MarkPTTL != ttl {
			t.Errorf("%s: M has %v", d.Name, o.MarkPTTL)
		}
		// Even a client nearly a day ahead of the server reads the stamp as
		// live while M exists.
		end := o.ServerNow().Add(o.MarkPTTL)
		if last := end.Add(day - 2*d.Unit.Step() - time.Millisecond); d.LegacyExpired(dialect.Text(o.Value),
			"", last) {
			t.Errorf("%s: %q has expired at %v, a day after M ends at %v", d.Name, o.Value, last, end)
		}
		beyond := time.Duration(0)
		if d.ServerExpires() {
			beyond = r.b.Terms().Gap + 200*time.Millisecond
		}
		if o.PTTL != o.MarkPTTL+beyond {
			t.Errorf("%s: L has %v, M %v", d.Name, o.PTTL, o.MarkPTTL)
		}
	}
}

// Rule 10: release.

func TestSameBytesUnderAnotherTTLCountAsLost(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Gorlock(), dialect.Machinery()} {
		r := newRig(t, legacy.Config{Dialect: d})
		g := r.take("k")
		mark := r.get("k")
		r.w.Mini.SetTTL("k", ttl)
		_, err := g.Extend(bg, ttl)
		r.wantLost(err)
		r.wantLost(g.Release(bg))
		r.wantLeft(mark)
	}
}

func TestFinishWithoutItsTokenLeavesLAlone(t *testing.T) {
	r := newRig(t, legacy.Config{Dialect: dialect.Machinery(),
		Terms: dialect.Terms{Lease: lease}})
	g := r.take("k")
	mark := r.get("k")
	r.set(keyM, "another "+mark)
	r.wantLost(g.Release(bg))
	if r.get("k") != mark || r.get(keyM) != "another "+mark {
		t.Errorf("L %q, M %q", r.get("k"), r.get(keyM))
	}
}

func TestReleaseWritesOldStampWhereKeyMeansDone(t *testing.T) {
	r := newRig(t, legacy.Config{Dialect: dialect.Machinery(),
		Terms: dialect.Terms{Lease: lease}})
	began := r.w.ServerNow()
	g := r.take("k")
	r.w.Pass(10 * time.Second)
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	want := strconv.FormatInt(began.Add(lease).UnixNano(), 10)
	if r.get("k") != want || r.exists(keyM) || r.ttlOf("k") != 50_000 {
		t.Errorf("L %q for %d ms, want %q; M %q", r.get("k"), r.ttlOf("k"), want, r.get(keyM))
	}
	_, err := r.try("k")
	r.wantHeld(err)
	r.w.Pass(50 * time.Second)
	g = r.take("k")
	for range 7 { // a job that outlives the old client's lease
		r.w.Pass(10 * time.Second)
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	r.wantLeft("")
}

// In a dialect with takeovers the lease rule bounds the TTL, and so the floor:
// the old client's own stamp outlasts it. In others, the floor may be longer
// than the old clients' lease.
func TestFloorIsKeptWhereKeyMeansDone(t *testing.T) {
	const old, floor = 10 * time.Second, 20 * time.Second
	done := dialect.SetDel()
	done.Name, done.Release = "SetDone", dialect.ReleaseNever
	for _, c := range []struct {
		d            dialect.Dialect
		lease, frees time.Duration
	}{{done, old, floor}, {done, lease, lease}, {dialect.Machinery(), lease, lease}} {
		r := newRig(t, legacy.Config{Dialect: c.d, Terms: dialect.Terms{Lease: c.lease}})
		client, err := lock.New(r.b, lock.Config{TTL: floor, Margin: -1, KeepFor: floor, Clock: r.clock})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := client.TryAcquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		r.w.Pass(time.Second)
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
		r.w.Pass(c.frees - 2*time.Second)
		_, err = r.try("k")
		r.wantHeld(err)
		if !r.exists("k") {
			t.Errorf("%s with leases of %v: free to old clients", c.d, c.lease)
		}
		r.w.Pass(time.Second)
		if err := errors.Join(r.take("k").Release(bg), client.Close(bg)); err != nil {
			t.Error(err)
		}
	}
	cfg := legacy.Config{Dialect: dialect.Machinery(), Terms: dialect.Terms{Lease: old}}
	b := open(t, redistest.New(t), cfg)
	_, err := lock.New(b, lock.Config{TTL: floor, KeepFor: floor})
	if err == nil || !strings.Contains(err.Error(), "TTL 20s is too long: alongside Machinery clients") {
		t.Errorf("a floor above the old clients' lease: %v", err)
	}
}

// Where old clients set TTLs too, one that is as late as it can be may write
// exactly this holder's bytes. Its EXPIRE must not end them where this holder's
// end: only the different end shows the loss.
func TestLOutlivesMWhereOldClientsSetTTLs(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Gorlock(), dialect.Machinery()} {
		terms := dialect.Terms{Lease: lease, Spread: 50 * time.Millisecond, Gap: 2 * time.Second}
		r := newRig(t, legacy.Config{Dialect: d, Terms: terms})
		g := r.take("k")
		for _, when := range []string{"taken", "renewed"} {
			beyond := time.Duration(r.ttlOf("k")-r.ttlOf(keyM)) * time.Millisecond
			if least := terms.Spread + terms.Gap + 100*time.Millisecond; beyond <= least {
				t.Errorf("%s, %s: L ends %v after M, want more than %v", d, when, beyond, least)
			}
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An old client that deletes or overwrites L is inside before the holder can
// learn of it: the lease still counts as held. The embedded server has no
// tracking, so the next renewal reports the loss, at most a third of the TTL
// later.
func TestOldClientEntersBeforeHolderLearnsOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		b := open(t, w, legacy.Config{Mode: legacy.Hardened, Clock: clock})
		client, err := lock.New(b, lock.Config{TTL: 30 * time.Second, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(bg)
		held, err := client.Acquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		robbed := w.Now()
		w.Mini.Del("k")      // an old client's late DEL …
		w.Mini.Set("k", "1") // … and the next old client's SETNX
		synctest.Wait()
		if err := held.Err(); err != nil {
			t.Errorf("lost before the holder could know: %v", err)
		}
		select {
		case <-held.Done():
		case <-clock.After(time.Minute):
		}
		took := w.Now().Sub(robbed)
		if err := held.Err(); !errors.Is(err, lock.ErrLost) || took <= 0 || took > 10*time.Second {
			t.Errorf("ended after %v by %v", took, err)
		}
	})
}
