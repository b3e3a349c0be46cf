package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Spec says what one process of a measurement does.
type Spec struct {
	Kind    string // loop, keep, crowd, hold, inherit, give back, throng
	Adapter string
	Addr    string // of the server
	Prefix  string // prefix of all keys

	Goroutines int
	Keys       int           // number of keys; goroutine i takes key i modulo Keys
	Hold       time.Duration // how long a lock is held
	Rest       time.Duration // how long a goroutine pauses after a release
	Window     time.Duration // how long the measurement lasts
	TTL        time.Duration
	Spans      bool // report every acquisition

	Away time.Duration // additional round trip to the server

	another func(context.Context) (Locker, error) // opens a second Locker, which acts like another process
	pool    *redis.Pool                           // for questions to the server
}

// Result is what one process measured. Fields that its kind of work does not
// use are zero.
type Result struct {
	Elapsed  time.Duration `json:",omitempty"`
	Counts   []int         `json:",omitempty"` // acquisitions, by goroutine
	Waits    ticks         `json:",omitempty"` // all waits, if Spec.Spans is set
	WaitP50  time.Duration `json:",omitempty"`
	WaitMax  time.Duration `json:",omitempty"` // including waits without success
	OpP50    time.Duration `json:",omitempty"` // one round: acquire, hold, release, rest
	OpP99    time.Duration `json:",omitempty"`
	Allocs   uint64        `json:",omitempty"`
	Bytes    uint64        `json:",omitempty"`
	Messages int64         `json:",omitempty"`
	Spans    []span        `json:",omitempty"`
	Hung     int           `json:",omitempty"` // goroutines that the library never let return
	Failed   int           `json:",omitempty"`
	Failure  string        `json:",omitempty"` // the first failure

	Resident   int64         `json:",omitempty"` // additional resident memory, in bytes
	Goroutines int           `json:",omitempty"` // additional goroutines
	CPU        time.Duration `json:",omitempty"`
	Busiest    int64         `json:",omitempty"` // messages in the busiest tenth of a second
	Lost       int           `json:",omitempty"`

	Held []int64 `json:",omitempty"` // when each key was acquired, in ns of the wall clock
}

// note counts a failure and keeps the first one.
func (r *Result) note(err error) {
	r.Failed++
	if r.Failure == "" {
		r.Failure = err.Error()
	}
}

// ErrWrongOrder is returned by Child if its parent is not a benchmark.
var ErrWrongOrder = errors.New("bench: this process can only be started by a benchmark")

// answer is one line of a child's output.
type answer struct {
	Ready  bool    `json:",omitempty"`
	Result *Result `json:",omitempty"`
	Error  string  `json:",omitempty"`
}

// Child runs one process of a measurement. It reads a [Spec], reports that it
// is ready, awaits a line, does its work, writes the [Result] and ends. If its
// input ends before, the work ends too.
func Child(adapters []Adapter, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	write := json.NewEncoder(out)
	line, err := lines.ReadBytes('\n')
	var spec Spec
	if err != nil || json.Unmarshal(line, &spec) != nil || spec.Kind == "" {
		return ErrWrongOrder
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := make(chan struct{})
	go func() {
		defer cancel()
		if _, err := lines.ReadBytes('\n'); err != nil {
			return
		}
		close(begin)
		_, _ = lines.ReadBytes('\n') // the input ended: the parent has gone
	}()
	res, err := spec.run(ctx, adapters, func() error {
		if err := write.Encode(answer{Ready: true}); err != nil {
			return err
		}
		select {
		case <-begin:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return write.Encode(answer{Error: err.Error()})
	}
	return write.Encode(answer{Result: res})
}

// run opens the adapter and does the Spec's work. ready returns when the work
// may begin.
func (s Spec) run(ctx context.Context, adapters []Adapter, ready func() error) (*Result, error) {
	a, err := find(adapters, s.Adapter)
	if err != nil {
		return nil, err
	}
	at := Server{Addr: s.Addr, TTL: s.TTL, Goroutines: s.Goroutines, away: s.Away}
	s.another = func(ctx context.Context) (Locker, error) { return a.Open(ctx, at) }
	s.pool = at.Pool()
	defer s.pool.Close()
	l, err := a.Open(ctx, at)
	if err != nil {
		return nil, err
	}
	work := map[string]func(context.Context, Locker, func() error) (*Result, error){
		"loop": s.loop, "keep": s.keep, "crowd": s.crowd, "hold": s.hold, "inherit": s.inherit,
		"give back": s.giveBack, "throng": s.throng,
	}[s.Kind]
	if work == nil {
		return nil, fmt.Errorf("bench: no kind of work is called %q", s.Kind)
	}
	res, err := work(ctx, l, ready)
	if closing := closeSoon(l); err == nil && closing != nil {
		res.note(closing)
	}
	return res, err
}

// closeSoon closes l, but stops waiting if that takes too long: the process
// ends anyway.
func closeSoon(l Locker) error {
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(patience):
		return nil
	}
}

func find(adapters []Adapter, name string) (Adapter, error) {
	for _, a := range adapters {
		if a.Name == name {
			return a, nil
		}
	}
	return Adapter{}, fmt.Errorf("bench: no adapter is called %q", name)
}

// name returns the name of the i-th key.
func (s Spec) name(i int) string { return fmt.Sprintf("%s%d", s.Prefix, i%s.Keys) }
