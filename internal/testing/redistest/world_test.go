// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// do runs one command on a connection of the pool and fails the test on an
// error.
func do(t *testing.T, p *redis.Pool, command string, args ...any) any {
	t.Helper()
	c := p.Get()
	defer c.Close()
	v, err := c.Do(command, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return v
}

func serverTime(t *testing.T, p *redis.Pool) time.Time {
	t.Helper()
	v, err := redis.Int64s(do(t, p, "TIME"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(v[0], v[1]*1000).UTC()
}

func pttl(t *testing.T, p *redis.Pool, key string) time.Duration {
	t.Helper()
	v, err := redis.Int64(do(t, p, "PTTL", key), nil)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(v) * time.Millisecond
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestPassMovesServerTTLsAndClocksTogether(t *testing.T) {
	w := redistest.New(t)
	p := w.Pool()
	c := w.Clock(redistest.Skew{Offset: -3 * time.Second})
	do(t, p, "SET", "k", "v", "PX", 10_000)

	w.Pass(4 * time.Second)

	equal(t, "TTL", pttl(t, p, "k"), 6*time.Second)
	equal(t, "TIME", serverTime(t, p), redistest.Start.Add(4*time.Second))
	equal(t, "true time", w.Now(), redistest.Start.Add(4*time.Second))
	equal(t, "clock", c.Now(), redistest.Start.Add(time.Second))
	w.Pass(6 * time.Second)
	equal(t, "keys left at the end of the TTL", len(redistest.Keys(t, p)), 0)
}

func TestServerIsAtTheInstantOfTheTimerThatFires(t *testing.T) {
	w := redistest.New(t)
	p := w.Pool()
	c := w.Clock(redistest.Skew{})
	seen := make(chan time.Duration)
	do(t, p, "SET", "k", "v", "PX", 10_000)
	go func() {
		<-c.After(3 * time.Second)
		seen <- pttl(t, p, "k")
	}()
	c.AwaitTimers(1)
	equal(t, "passed by Tick", w.Tick(), 3*time.Second)
	equal(t, "TTL when the timer fired", <-seen, 7*time.Second)
}

func TestTimersFireInOrderEachAtItsOwnInstant(t *testing.T) {
	w := redistest.New(t)
	fast, slow := w.Clock(redistest.Skew{PPM: 500_000}), w.Clock(redistest.Skew{PPM: -500_000})
	a, b := fast.After(3*time.Second), slow.After(3*time.Second)
	equal(t, "first", w.Tick(), 2*time.Second)
	equal(t, "fast timer's value", (<-a).Sub(redistest.Start), 3*time.Second)
	equal(t, "second", w.Tick(), 4*time.Second)
	equal(t, "slow timer's value", (<-b).Sub(redistest.Start), 3*time.Second)
}

func TestServerStepChangesTTLs(t *testing.T) {
	w := redistest.New(t)
	p := w.Pool()
	c := w.Clock(redistest.Skew{})
	do(t, p, "SET", "k", "v", "PX", 30_000)

	w.StepServer(20 * time.Second)
	equal(t, "TTL after a step forward", pttl(t, p, "k"), 10*time.Second)
	w.StepServer(-time.Hour)
	equal(t, "TTL after a step back", pttl(t, p, "k"), time.Hour+10*time.Second)
	w.Pass(time.Second)
	equal(t, "TIME", serverTime(t, p), redistest.Start.Add(21*time.Second-time.Hour))
	equal(t, "ServerNow", w.ServerNow(), serverTime(t, p))
	equal(t, "client's clock", c.Now(), redistest.Start.Add(time.Second))
}

func TestClientStepMovesItsWallAndNotItsTimers(t *testing.T) {
	w := redistest.New(t)
	c := w.Clock(redistest.Skew{})
	fired := c.After(2 * time.Second)
	c.Step(time.Hour)
	equal(t, "wall", c.Now(), redistest.Start.Add(time.Hour))
	equal(t, "elapsed", c.Elapsed(), 0)
	w.Pass(time.Second)
	equal(t, "timers", c.Timers(), 1)
	w.Pass(time.Second)
	equal(t, "timer's value", <-fired, redistest.Start.Add(time.Hour+2*time.Second))
}

func TestSuspensionStopsElapsedAndTimersAndNotTheWall(t *testing.T) {
	w := redistest.New(t)
	c := w.Clock(redistest.Skew{})
	fired := c.After(5 * time.Second)
	w.Pass(2 * time.Second)
	c.Suspend()
	w.Pass(time.Minute)
	equal(t, "elapsed while suspended", c.Elapsed(), 2*time.Second)
	equal(t, "wall", c.Now(), redistest.Start.Add(62*time.Second))
	equal(t, "timers", c.Timers(), 1)
	c.Resume()
	equal(t, "left after it", w.Tick(), 3*time.Second)
	<-fired
	equal(t, "elapsed", c.Elapsed(), 5*time.Second)
}

func TestClockStaysExactIfReadOften(t *testing.T) {
	w := redistest.New(t)
	c := w.Clock(redistest.Skew{PPM: 30})
	for range 1000 {
		w.Pass(time.Microsecond)
		c.Now()
	}
	equal(t, "elapsed", c.Elapsed(), time.Millisecond+30*time.Nanosecond)
}

func TestAskedTimesClosesForPastAndFutureCalls(t *testing.T) {
	c := redistest.New(t).Clock(redistest.Skew{})
	second, same := c.AskedTimes(2), c.AskedTimes(2)
	c.After(time.Second)
	select {
	case <-second:
		t.Error("closed after the first call")
	default:
	}
	c.After(time.Second)
	<-second
	<-same
	<-c.AskedTimes(1)
}

func TestBubbleMovesServerAndClocksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		p := w.Pool()
		began := w.Now()
		c := w.Clock(redistest.Skew{Offset: time.Minute})
		do(t, p, "SET", "k", "v", "PX", 10_000)
		<-c.After(4 * time.Second)
		equal(t, "TTL", pttl(t, p, "k"), 6*time.Second)
		equal(t, "clock", c.Now().Sub(began), time.Minute+4*time.Second)
		w.StepServer(5 * time.Second)
		equal(t, "TTL after a step", pttl(t, p, "k"), time.Second)
		w.StepServer(-2 * time.Second)
		equal(t, "TTL after a step back", pttl(t, p, "k"), 3*time.Second)
		w.Pass(time.Second)
		equal(t, "TIME", serverTime(t, p).Sub(began), 8*time.Second)
		w.Pass(2 * time.Second)
		equal(t, "keys left", len(redistest.Keys(t, p)), 0)
	})
}

func TestBubbleSuspensionDelaysTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		began := w.Now()
		c := w.Clock(redistest.Skew{PPM: 1_000_000})
		fired := c.After(4 * time.Second)
		w.Pass(time.Second)
		c.Suspend()
		w.Pass(time.Minute)
		c.Resume()
		<-fired
		equal(t, "true time", w.Now().Sub(began), 62*time.Second)
	})
}

func TestCleanReportsAKeyAndAGoroutineThatStay(t *testing.T) {
	w := redistest.New(t)
	p := w.Pool()
	do(t, p, "SET", "left", "behind")
	stay, ended := make(chan struct{}), make(chan struct{})
	spy := &recorder{TB: t}
	redistest.Clean(spy, p)
	go func() { <-stay; close(ended) }()
	spy.finish()
	close(stay)
	<-ended
	if len(spy.errors) != 2 {
		t.Errorf("Clean reported %d errors about a key and a goroutine: %q", len(spy.errors), spy.errors)
	}
}

func TestCleanAcceptsAWorldThatWasCleanedUp(t *testing.T) {
	w := redistest.New(t)
	p := w.FaultyPool()
	spy := &recorder{TB: t}
	redistest.Clean(spy, p)
	do(t, p, "SET", "k", "v")
	do(t, p, "DEL", "k")
	spy.finish()
	if len(spy.errors) != 0 {
		t.Errorf("Clean complained: %q", spy.errors)
	}
}
