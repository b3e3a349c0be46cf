package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

const (
	jarWaits  = "jedis-lock, polling"
	bareWaits = "bare SETNX, woken"
	oursWaits = "legacy, hardened, waiting"
)

// javaAdapters only name the waiter; a Java client holds.
func javaAdapters() []Adapter {
	return []Adapter{{Name: jarWaits}, {Name: bareWaits}, {Name: oursWaits}}
}

// fromJava returns the scenarios that measure how long after a Java client sent
// its DEL a waiter has the lock. The waiters are the jar, which polls, the bare
// minimum between a notification and a SETNX, and a getsetlock client. One
// scenario has holds of ordinary length, after which the code of the hand-off
// has left the CPU's caches; the other has short ones.
func fromJava() []Scenario {
	return []Scenario{
		besideJars(),
		javaScenario("java/100ms", "after 50 to 150 ms", 50*time.Millisecond, 100*time.Millisecond),
		javaScenario("java/1ms", "after 1 to 2 ms", time.Millisecond, time.Millisecond),
	}
}

func javaScenario(name, when string, least, spread time.Duration) Scenario {
	return Scenario{
		Name: name, Title: "a Java client (jedis-lock 1.0.0) deletes the key " + when +
			": how long until the waiter has it",
		Adapters: []string{jarWaits, bareWaits, oursWaits}, Rounds: 2,
		Bases: map[string]string{jarWaits: jarWaits, bareWaits: jarWaits, oursWaits: jarWaits},
		Metrics: []Metric{
			{Name: "gap_us_p50", Head: "gap p50 µs", Ratio: true}, {Name: "gap_us_max", Head: "longest µs"},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			return measureJava(ctx, r, a, func() time.Duration { return least + rand.N(spread) })
		},
	}
}

func measureJava(ctx context.Context, r *Runner, a Adapter,
	hold func() time.Duration) (Figures, error) {
	j, err := interop.Start(ctx, interop.Options{Jar: jar()})
	if err != nil {
		return nil, fmt.Errorf("the Java side (make prepare builds it): %w", err)
	}
	defer j.Close()
	m := &handOffs{jvm: j, addr: r.Addr, key: r.key("java"), hold: hold}
	if m.holder, err = m.java(ctx, "holder"); err != nil {
		return nil, err
	}
	wait, leave, err := m.waits(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	gaps, err := m.all(ctx, r.Quick, wait)
	if err = errors.Join(err, leave()); err != nil {
		return nil, err
	}
	return Figures{"gap_us_p50": gaps[len(gaps)/2], "gap_us_max": gaps[len(gaps)-1]}, nil
}

// waiting begins to wait for the key and returns once it waits. held waits on
// and returns when the waiter had the key, in µs.
type waiting func(context.Context) (held func() (int64, error), err error)

// waits returns a waiter of that name and the function that ends it.
func (m *handOffs) waits(ctx context.Context, name string) (wait waiting, leave func() error, err error) {
	switch name {
	case jarWaits:
		m.waiter, err = m.java(ctx, "waiter")
		return m.jarWaits, func() error { return nil }, err
	case bareWaits:
		b, err := dialBare(m.addr, m.key)
		if err != nil {
			return nil, nil, err
		}
		return b.waits, b.close, nil
	}
	return m.oursWaits, func() error { return m.client.Close(ctx) }, m.open()
}

// all returns the gaps of many hand-offs in µs, shortest first.
func (m *handOffs) all(ctx context.Context, quick bool, wait waiting) ([]float64, error) {
	rounds, warm := 25, 2000
	if quick {
		rounds, warm = 3, 3
	}
	if err := m.warm(ctx, warm); err != nil {
		return nil, err
	}
	var gaps []float64
	for i := range rounds + 2 {
		gap, err := m.one(ctx, wait)
		if err != nil {
			return nil, err
		}
		if i >= 2 { // the first hand-offs also connect
			gaps = append(gaps, gap)
		}
	}
	slices.Sort(gaps)
	return gaps, nil
}

// jar returns the path of the Java side as seen from this module's folder;
// elsewhere the environment names it.
func jar() string {
	path := filepath.Join("..", "java", "interop", "target", "interop.jar")
	if _, err := os.Stat(path); err != nil || os.Getenv(interop.JarEnv) != "" {
		return ""
	}
	return path
}

// handOffs measures hand-offs of one key from a Java client to a waiter.
type handOffs struct {
	jvm            *interop.JVM
	addr, key      string
	hold           func() time.Duration
	holder, waiter *interop.Client
	client         *lock.Client
	told           chan struct{} // receives when the getsetlock client waits
}

func (m *handOffs) java(ctx context.Context, name string) (*interop.Client, error) {
	c, err := m.jvm.Client(ctx, name, m.addr)
	if err != nil {
		return nil, err
	}
	return c, c.Lock(ctx, interop.Jar, m.key, 10*time.Second, time.Minute)
}

// open makes the getsetlock waiter. It is not polite after its own release,
// since that gap would extend into the next hand-off.
func (m *handOffs) open() error {
	m.told = make(chan struct{}, 1)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.addr) }}
	b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	if err != nil {
		return err
	}
	m.client, err = lock.New(b, lock.Config{Politeness: -1, Hooks: lock.Hooks{
		Waiting: func(lock.Event) { m.told <- struct{}{} },
	}})
	return err
}

// warm lets the Java client take and delete the key until its code is compiled,
// as in a service that runs for days. Interpreted, its DEL alone takes longer
// than everything after it.
func (m *handOffs) warm(ctx context.Context, turns int) error {
	for range turns {
		if _, err := m.holder.Acquire(ctx); err != nil {
			return err
		}
		if err := m.holder.Release(ctx); err != nil {
			return err
		}
	}
	_, err := m.holder.Trace(ctx)
	return err
}

// one measures one hand-off. The Java client takes the key, a waiter begins to
// wait, and the Java client releases at a random point of a poll. one returns
// the time from the DEL until the waiter has the key, in µs. The Java client
// releases by itself, as a service does. If it had to answer an order just
// after its DEL, both processes would work for the benchmark on the one CPU,
// and that would count as the lock's time.
func (m *handOffs) one(ctx context.Context, wait waiting) (float64, error) {
	got, err := m.holder.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	if !got.Won {
		return 0, fmt.Errorf("the Java client did not get the key")
	}
	held, err := wait(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.holder.Leave(ctx, m.hold()); err != nil {
		return 0, err
	}
	at, err := held()
	if err != nil {
		return 0, err
	}
	calls, err := m.holder.Trace(ctx)
	if err != nil || len(calls) == 0 {
		return 0, fmt.Errorf("the Java client's trace: %d calls, %w", len(calls), err)
	}
	return float64(at - calls[len(calls)-1].SentMicros), nil
}

func (m *handOffs) oursWaits(ctx context.Context) (func() (int64, error), error) {
	type got struct {
		at  int64
		err error
	}
	done := make(chan got, 1)
	go func() {
		lease, err := m.client.Acquire(ctx, m.key)
		at := time.Now().UnixMicro()
		if err == nil {
			err = lease.Release()
		}
		done <- got{at, err}
	}()
	select {
	case <-m.told:
	case g := <-done:
		return nil, fmt.Errorf("the getsetlock client did not wait: %w", g.err)
	}
	return func() (int64, error) {
		g := <-done
		return g.at, g.err
	}, nil
}

func (m *handOffs) jarWaits(ctx context.Context) (func() (int64, error), error) {
	p, err := m.waiter.BeginAcquire()
	if err != nil {
		return nil, err
	}
	return func() (int64, error) {
		got, err := p.Wait(ctx)
		if err != nil {
			return 0, err
		}
		if !got.Won {
			return 0, fmt.Errorf("the waiting jar never got the lock")
		}
		calls, err := m.waiter.Trace(ctx)
		if err != nil || len(calls) == 0 {
			return 0, fmt.Errorf("the waiting jar's trace: %d calls, %w", len(calls), err)
		}
		if err := m.waiter.Release(ctx); err != nil {
			return 0, err
		}
		_, err = m.waiter.Trace(ctx)
		return calls[len(calls)-1].RepliedMicros, err
	}, nil
}
