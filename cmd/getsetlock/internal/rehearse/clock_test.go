// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// ailing returns a machine with these clocks, begun now.
func ailing(c simulate.Clocks) *machine {
	r := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(1, n)) }
	return newMachine(c, time.Now(), true, r(1), r(2))
}

func TestMachinesStayWithinTheirPresetsSpread(t *testing.T) {
	const long = 3 * time.Hour
	for _, preset := range simulate.Presets() {
		if preset.Clocks.Server.Any() {
			continue // a plan refuses these
		}
		p := DefaultPlan()
		p.Preset, p.Clients = preset.Name, 40
		low, high, wrong, stops := never, -never, 0, 0
		for _, m := range p.machines(time.Now()) {
			l, h := m.offsets(0, long)
			low, high = min(low, l), max(high, h)
			if l != 0 || h != 0 {
				wrong++
			}
			_, n, _ := m.troubles(long)
			stops += n
		}
		if most := preset.Clocks.Spread(long); high-low > most+time.Microsecond {
			t.Errorf("%s: %v apart, at most %v are said", preset.Name, high-low, most)
		}
		if still := len(preset.Clocks.Pauses) > 0; still != (wrong == 0) || stops > 0 && !still ||
			preset.Name == "jvm-gc" && stops < 40*3000 {
			t.Errorf("%s: %d of 40 clocks are ever wrong, %d standstills", preset.Name, wrong, stops)
		}
		if share := preset.Clocks.Share; share > 0 && wrong > int(40*share) {
			t.Errorf("%s: %d of 40 clocks are wrong", preset.Name, wrong)
		}
	}
}

func TestClockIsTheSameWheneverItIsRead(t *testing.T) {
	for _, name := range []string{"jepsen", "slewing", "timesyncd"} {
		preset, err := simulate.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		often, once := ailing(preset.Clocks), ailing(preset.Clocks)
		for at := time.Duration(0); at < 5*time.Hour; at += time.Second {
			often.offsets(at, at)
		}
		for _, at := range []time.Duration{5 * time.Hour, 0, 90 * time.Minute} {
			a, _ := often.offsets(at, at)
			b, _ := once.offsets(at, at)
			if a != b {
				t.Errorf("%s at %v: %v and %v", name, at, a, b)
			}
		}
	}
}

func TestElapsedFollowsTheRateAndIgnoresSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := ailing(simulate.Clocks{
			Step: simulate.Steps{Kind: simulate.StepBy, By: -time.Hour, Every: time.Minute, Once: true},
			Slew: simulate.Slews{PPM: 100_000, For: time.Hour, Every: 2 * time.Minute, Once: true},
		})
		time.Sleep(2 * time.Minute)
		if e, off := m.Elapsed(), time.Until(m.Now()); e != 2*time.Minute || off != -time.Hour {
			t.Errorf("after a step: elapsed %v, off by %v", e, off)
		}
		time.Sleep(10 * time.Minute)
		e := m.Elapsed()
		if e != 13*time.Minute && e != 11*time.Minute {
			t.Errorf("after ten minutes at a tenth too fast or too slow: elapsed %v", e)
		}
		asked, began := m.Elapsed(), time.Now()
		<-m.After(11 * time.Second)
		if took := time.Since(began); m.Elapsed()-asked < 11*time.Second || took > 13*time.Second ||
			took == 11*time.Second {
			t.Errorf("11 s by this clock took %v, %v of its own", took, m.Elapsed()-asked)
		}
	})
}

// stopping returns a machine that pauses for a minute, beginning soon.
func stopping() (m *machine, begin, end time.Duration) {
	m = ailing(simulate.Clocks{Pauses: []simulate.Pause{{For: time.Minute, Every: 10 * time.Minute}}})
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.drawnStops(24 * time.Hour)[0]
	return m, s.start, s.end
}

func TestPausedMachineSendsAndReceivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		m, begin, end := stopping()
		var ages []time.Duration
		var commands atomic.Int64
		l := &link{
			commands: &commands, sending: func() {}, host: m,
			wrote: func(_ string, age time.Duration) { ages = append(ages, age) },
			dial: func(ctx context.Context, n int) (redis.Conn, error) {
				return Plan{}.embeddedDialer(server, new(sync.WaitGroup))(ctx, identity{}, n)
			},
		}
		defer l.cut()
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(begin - time.Since(m.began) - time.Second)
		if _, err := c.Do("SETNX", "lock", "1"); err != nil || time.Since(m.began) >= begin {
			t.Errorf("%v, at %v of %v", err, time.Since(m.began), begin)
		}
		time.Sleep(begin - time.Since(m.began) + time.Second)
		c.Send("GETSET", "lock", "2")
		c.Flush()
		if at := time.Since(m.began); at != end {
			t.Errorf("sent at %v; the machine stood still until %v", at, end)
		}
		if old, err := redis.String(c.Receive()); old != "1" || err != nil {
			t.Errorf("%q, %v", old, err)
		}
		if len(ages) != 2 || ages[0] > time.Second || ages[1] < time.Minute {
			t.Errorf("the clock readings were %v old when they left", ages)
		}
	})
}

func TestTimerDuringAPauseFiresAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, begin, end := stopping()
		<-m.After(begin + 10*time.Second)
		if at := time.Since(m.began); at != end {
			t.Errorf("came at %v, the machine ran from %v", at, end)
		}
		m, begin, end = stopping()
		if done := m.worked(begin-time.Second, 3*time.Second); done != end+2*time.Second {
			t.Errorf("three seconds of work, one before a stop that ends at %v, were done at %v", end, done)
		}
		if _, long := m.firstStop(begin-time.Hour, begin-1, 0); long {
			t.Error("a stop was seen before it came")
		}
		if at, long := m.firstStop(begin+time.Second, end+time.Hour, 58*time.Second); !long ||
			at != begin+time.Second {
			t.Errorf("of the stop %v to %v: %v, %v", begin, end, at, long)
		}
	})
}
