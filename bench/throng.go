package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// leavers is how many goroutines release leases at the same time.
const leavers = 4000

// giveBack takes a lock on every key, and then releases all of them at once
// while the Locker is being closed.
func (s Spec) giveBack(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	k := kept{held: make([]Held, s.Keys)}
	if err := k.take(ctx, s, l); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	res := &Result{}
	began, sent := time.Now(), messages.Load()
	var failures sync.Map
	var wg sync.WaitGroup
	for t := range leavers {
		wg.Go(func() {
			for i := t; i < len(k.held); i += leavers {
				if err := k.held[i].Release(); err != nil {
					failures.Store(i, err)
				}
			}
		})
	}
	closing := l.Close()
	wg.Wait()
	res.Elapsed, res.Messages = time.Since(began), messages.Load()-sent
	failures.Range(func(_, err any) bool { res.note(err.(error)); return true })
	if closing != nil {
		res.note(closing)
	}
	return res, ctx.Err()
}

// throng lets one Locker hold every key while a goroutine of another Locker
// waits for each: as many pairs of a process and a key as there are keys. It
// measures the server.
func (s Spec) throng(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	waiters, err := s.another(ctx)
	if err != nil {
		return nil, err
	}
	k := kept{held: make([]Held, s.Keys)}
	if err := k.take(ctx, s, l); err != nil {
		return nil, err
	}
	waiting, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range s.Keys {
		wg.Go(func() {
			if h, err := waiters.Lock(waiting, s.name(i)); err == nil {
				_ = h.Release()
			}
		})
	}
	defer func() {
		leave()
		wg.Wait()
		_ = waiters.Close()
		k.release()
	}()
	if err := ready(); err != nil {
		return nil, err
	}
	pause(ctx, s.Rest) // by then all of them wait and ask at their usual pace
	began, sent := time.Now(), messages.Load()
	before, err := s.serverCPU()
	if err != nil {
		return nil, err
	}
	pause(ctx, s.Window)
	after, err := s.serverCPU()
	if err != nil {
		return nil, err
	}
	return &Result{Elapsed: time.Since(began), Messages: messages.Load() - sent, CPU: after - before},
		ctx.Err()
}

// serverCPU returns the CPU time that the server has used since its start.
func (s Spec) serverCPU() (time.Duration, error) {
	conn := s.pool.Get()
	defer conn.Close()
	text, err := redis.String(conn.Do("INFO", "cpu"))
	if err != nil {
		return 0, fmt.Errorf("reading the server's CPU time: %w", err)
	}
	var used float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			used += n
		}
	}
	if used == 0 {
		return 0, errors.New("the server does not report its CPU time")
	}
	return time.Duration(used * float64(time.Second)), nil
}

func givingBack(name, title string, n int, away time.Duration, adapters []string) Scenario {
	return Scenario{
		Name: name, Title: title, Adapters: adapters, Rounds: 1,
		Metrics: []Metric{{"seconds", "seconds", false}, {"messages", "messages a lease", false}},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			s := Spec{Goroutines: takers, Keys: n, Away: away}
			if r.Quick {
				s.Keys /= 100
			}
			res, err := r.one(ctx, r.spec(s, "give back", a))
			if err != nil {
				return nil, err
			}
			r.first = res.Failure
			return Figures{"seconds": res.Elapsed.Seconds(), "failed": float64(res.Failed),
				"messages": float64(res.Messages) / float64(s.Keys)}, nil
		},
	}
}

func thronging(name, title string, n int, adapters []string) Scenario {
	return Scenario{
		Name: name, Title: title, Adapters: adapters, Rounds: 1,
		Metrics: []Metric{{"server_percent", "server CPU %", false}, {"messages_per_s", "messages/s", false}},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			s := Spec{Goroutines: takers, Keys: n, Rest: 15 * time.Second, Window: 20 * time.Second}
			if r.Quick {
				s.Keys /= 100
			}
			res, err := r.one(ctx, r.spec(s, "throng", a))
			if err != nil {
				return nil, err
			}
			return Figures{
				"server_percent": 100 * res.CPU.Seconds() / res.Elapsed.Seconds(),
				"messages_per_s": float64(res.Messages) / res.Elapsed.Seconds(),
			}, nil
		},
	}
}
