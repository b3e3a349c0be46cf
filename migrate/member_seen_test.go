// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// TestRecordVoidsASmallerBoundOfAMember: a watcher saw clocks two minutes
// behind and a day and an hour ahead. From the next heartbeat on the member
// waits by looks and stamps beyond that clock. When the evidence is forgotten
// the claims count again.
func TestRecordVoidsASmallerBoundOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := observing(t)
		m, err := Join(t.Context(), w.Pool(), MemberConfig{Clock: asleep{w.Clock(redistest.Skew{})}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Leave()
		b, err := New(w.Pool(), Config{Phases: m, Dialect: dialect.Jedis(), Clock: w.Clock(redistest.Skew{}),
			Terms: dialect.Terms{Lease: lease, Behind: 30 * time.Second, Ahead: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for _, c := range []struct {
			behind, ahead time.Duration // seen
			says          string
			takes         bool
			stamp         time.Duration
		}{
			{0, 0, "30000 3600000", true, 25 * time.Hour},
			{30 * time.Second, time.Hour, "30000 3600000", true, 25 * time.Hour},
			{2 * time.Minute, time.Hour, "- 3600000", false, 25 * time.Hour},
			{2 * time.Minute, 25 * time.Hour, "- -", false, 49 * time.Hour},
			{0, 0, "30000 3600000", true, 25 * time.Hour},
		} {
			text := Record{Epoch: 1, Phase: Observe, Since: w.ServerNow(), Dialect: "Jedis",
				SawBehind: c.behind, SawAhead: c.ahead}.String()
			_ = w.Mini.Set(record.Key(""), text)
			if err := m.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := published(t, w, m)
			if says := boundText(s.Behind) + " " + boundText(s.Ahead); says != c.says {
				t.Errorf("%+v: it says %s", c, says)
			}
			g, err := b.Contract().Try(t.Context(), "free", lease/2)
			if err != nil {
				t.Fatal(err)
			}
			value, _ := w.Mini.Get("free")
			stamp, err := dialect.Jedis().Decode(value, w.ServerNow())
			if ends := stamp.Expiry.Sub(w.ServerNow()) - lease/2; err != nil || ends < c.stamp-time.Second ||
				ends > c.stamp+time.Minute {
				t.Errorf("%+v: its stamp ends %v after its lease (%v)", c, ends, err)
			}
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			crashed, _ := dialect.Jedis().Stamp(w.ServerNow().Add(-32*time.Second-lease), lease, "")
			_ = w.Mini.Set("k", crashed)
			g, err = b.Contract().Try(t.Context(), "k", lease/2)
			if (err == nil) != c.takes {
				t.Errorf("%+v: %v", c, err)
			}
			if err == nil {
				_ = g.Release(t.Context())
			}
			w.Mini.Del("k")
		}
	})
}

// TestLongLeasesSayTheFirstLease: gates before modern go by the lease that the
// rule allows, which is all that such a member takes before.
func TestLongLeasesSayTheFirstLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := observing(t)
		m, err := Join(t.Context(), w.Pool(), MemberConfig{Clock: asleep{w.Clock(redistest.Skew{})}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Leave()
		for _, long := range []bool{true, false} { // the longest lease of any bridge counts
			b, err := New(w.Pool(), Config{Phases: m, Clock: w.Clock(redistest.Skew{}), LongLeases: long,
				Terms: dialect.Terms{Lease: lease, Spread: time.Second, Gap: time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if _, err := lock.New(b, lock.Config{TTL: 10 * lease}); (err == nil) != long {
				t.Fatal(err)
			}
			if err := m.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			first := lease - 2*time.Second + time.Millisecond
			if !long {
				first = 10 * lease
			}
			if s := published(t, w, m); s.TTL != 10*lease || s.First != first {
				t.Errorf("LongLeases %v: ttl %v, first %v", long, s.TTL, s.First)
			}
		}
	})
}
