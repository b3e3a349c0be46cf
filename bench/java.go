package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/bench"
	"github.com/getsetlock/getsetlock/internal/interop"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

const (
	jarWaits  = "jedis-lock, polling"
	oursWaits = "legacy, hardened, waiting"
)

// javaAdapters only name who waits: a Java client holds.
func javaAdapters() []bench.Adapter { return []bench.Adapter{{Name: jarWaits}, {Name: oursWaits}} }

// fromJava is how long after a Java client sent its DEL a waiter has the lock: the jar's own, which
// polls, and one of ours.
func fromJava() bench.Scenario {
	return bench.Scenario{
		Name: "java", Title: "a Java client (jedis-lock 1.0.0) deletes the key: how long until the waiter has it",
		Adapters: []string{jarWaits, oursWaits}, Rounds: 2,
		Bases: map[string]string{jarWaits: jarWaits, oursWaits: jarWaits},
		Metrics: []bench.Metric{
			{Name: "gap_us_p50", Head: "gap p50 µs", Ratio: true}, {Name: "gap_us_max", Head: "longest µs"},
		},
		Measure: measureJava,
	}
}

func measureJava(ctx context.Context, r *bench.Runner, a bench.Adapter) (bench.Figures, error) {
	j, err := interop.Start(ctx, interop.Options{Jar: jar()})
	if err != nil {
		return nil, fmt.Errorf("the Java side (make prepare builds it): %w", err)
	}
	defer j.Close()
	m := &handOffs{jvm: j, addr: r.Redis[len("redis://"):], key: r.Prefix + "java"}
	if m.holder, err = m.java(ctx, "holder"); err != nil {
		return nil, err
	}
	wait := m.oursWaits
	if a.Name == jarWaits {
		wait = m.jarWaits
		m.waiter, err = m.java(ctx, "waiter")
	} else {
		err = m.open()
	}
	if err != nil {
		return nil, err
	}
	rounds, warm := 25, 2000
	if r.Quick {
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
		if i >= 2 { // the first ones connect
			gaps = append(gaps, gap)
		}
	}
	slices.Sort(gaps)
	if m.client != nil {
		err = m.client.Close(ctx)
	}
	return bench.Figures{"gap_us_p50": gaps[len(gaps)/2], "gap_us_max": gaps[len(gaps)-1]}, err
}

// jar is where the Java side is built, seen from this module's folder; elsewhere the environment says.
func jar() string {
	path := filepath.Join("..", "internal", "interop", "java", "target", "interop.jar")
	if _, err := os.Stat(path); err != nil || os.Getenv(interop.JarEnv) != "" {
		return ""
	}
	return path
}

// handOffs are hand-offs of one key from a Java client to a waiter.
type handOffs struct {
	jvm            *interop.JVM
	addr, key      string
	holder, waiter *interop.Client
	client         *lock.Client
	waiting        chan struct{}
}

func (m *handOffs) java(ctx context.Context, name string) (*interop.Client, error) {
	c, err := m.jvm.Client(ctx, name, m.addr)
	if err != nil {
		return nil, err
	}
	return c, c.Lock(ctx, interop.Jar, m.key, 10*time.Second, time.Minute)
}

// open makes our waiter. It is not polite to others after its own release: that pause would fall
// into the next hand-off.
func (m *handOffs) open() error {
	m.waiting = make(chan struct{}, 1)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.addr) }}
	b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	if err != nil {
		return err
	}
	m.client, err = lock.New(b, lock.Config{Politeness: -1, Hooks: lock.Hooks{
		Waiting: func(lock.Event) { m.waiting <- struct{}{} },
	}})
	return err
}

// warm lets the Java client take and delete the key so often that its code is compiled, as that of a service
// is which runs for days: interpreted, its DEL alone takes longer than all that follows.
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

// one lets the Java client take the key, a waiter begin to wait, and the Java client go at some point
// of a poll. It returns the microseconds from the DEL to the waiter's having it.
func (m *handOffs) one(ctx context.Context, wait func(context.Context) (func() (int64, error), error)) (float64, error) {
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
	<-time.After(50*time.Millisecond + rand.N(100*time.Millisecond))
	if err := m.holder.Release(ctx); err != nil {
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
	case <-m.waiting:
	case g := <-done:
		return nil, fmt.Errorf("ours did not wait: %w", g.err)
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
			return 0, fmt.Errorf("the waiting jar never had it")
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
