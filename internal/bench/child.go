package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/redisconn"
)

// Spec is what one process of a measurement does.
type Spec struct {
	Kind    string // loop, keep, crowd, hold, inherit, give back, throng
	Adapter string
	Redis   string // address; it goes through a pipe, since it may hold a password
	CACert  string
	Prefix  string // of all keys

	Goroutines int
	Keys       int           // goroutine i takes key i modulo Keys
	Hold       time.Duration // how long a lock is held
	Rest       time.Duration // how long a goroutine stays away after it
	Window     time.Duration // how long is measured
	TTL        time.Duration
	Spans      bool // every acquisition is reported

	Away time.Duration // a round trip to the server, beside what it takes anyway

	another func(context.Context) (Locker, error) // a Locker as of another process
	pool    *redis.Pool                           // to ask the server
}

// Result is what it found. Fields that a kind has no use for are zero.
type Result struct {
	Elapsed  time.Duration `json:",omitempty"`
	Counts   []int         `json:",omitempty"` // acquisitions of each goroutine
	Waits    ticks         `json:",omitempty"` // where every acquisition is reported
	WaitP50  time.Duration `json:",omitempty"`
	WaitMax  time.Duration `json:",omitempty"` // of those that waited in vain too
	OpP50    time.Duration `json:",omitempty"` // acquire, hold, release, rest
	OpP99    time.Duration `json:",omitempty"`
	Allocs   uint64        `json:",omitempty"`
	Bytes    uint64        `json:",omitempty"`
	Messages int64         `json:",omitempty"`
	Spans    []span        `json:",omitempty"`
	Hung     int           `json:",omitempty"` // goroutines that never came back
	Failed   int           `json:",omitempty"`
	Failure  string        `json:",omitempty"` // the first of them

	Resident   int64         `json:",omitempty"` // bytes more than before
	Goroutines int           `json:",omitempty"` // more than before
	CPU        time.Duration `json:",omitempty"`
	Busiest    int64         `json:",omitempty"` // messages in the busiest tenth of a second
	Lost       int           `json:",omitempty"`

	Held []int64 `json:",omitempty"` // when each key was had, nanoseconds of the wall clock
}

// note keeps a failure.
func (r *Result) note(err error) {
	r.Failed++
	if r.Failure == "" {
		r.Failure = err.Error()
	}
}

// ErrWrongOrder is how Child ends when what started it is no benchmark.
var ErrWrongOrder = errors.New("bench: this process is started by a benchmark and is of no use by hand")

// answer is a line that a child writes.
type answer struct {
	Ready  bool    `json:",omitempty"`
	Result *Result `json:",omitempty"`
	Error  string  `json:",omitempty"`
}

// Child is a process of a measurement: it reads a [Spec], says that it is ready, awaits a line, does
// its work, writes the [Result] and ends. When its input ends before, so does the work.
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
		_, _ = lines.ReadBytes('\n') // the end of the input: whoever started us has gone
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

// run opens the adapter and does what the Spec asks for; ready returns when it may begin.
func (s Spec) run(ctx context.Context, adapters []Adapter, ready func() error) (*Result, error) {
	a, err := find(adapters, s.Adapter)
	if err != nil {
		return nil, err
	}
	address, err := redisconn.Parse(s.Redis)
	if err != nil {
		return nil, err
	}
	at := Server{
		Addr: strings.TrimPrefix(s.Redis, "redis://"), TTL: s.TTL, Goroutines: s.Goroutines, Prefix: s.Prefix,
		address: address, caCert: s.CACert, away: s.Away,
	}
	s.another = func(ctx context.Context) (Locker, error) { return a.Open(ctx, at) }
	if s.pool, err = at.Pool(); err != nil {
		return nil, err
	}
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

// closeSoon closes, unless that takes too long: the process ends anyway.
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

// name is the i-th key.
func (s Spec) name(i int) string { return fmt.Sprintf("%s%d", s.Prefix, i%s.Keys) }
