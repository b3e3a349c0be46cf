package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// watchOf names the variable that makes this program a watch of the server at that address, in a process of its own, so
// that what a Go program costs by being awake counts as its price too. It says "ready" when it follows all keys, goes on
// at a '+' of its standard input, stands still at a '-', and prints its Cost at the end of it.
const watchOf = "GETSETLOCK_TEST_WATCH"

// watchedKeys are what it looks at once a second each.
const watchedKeys = 1000

func watchInChild(addr string, keys int) error {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	defer pool.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	clock := newStoppable()
	go func() {
		defer stop()
		in := bufio.NewReader(os.Stdin)
		for {
			switch c, err := in.ReadByte(); {
			case err != nil:
				return
			case c == '+':
				clock.run(true)
			case c == '-':
				clock.run(false)
			}
		}
	}()
	ready := false
	r, err := Watch(ctx, pool, Config{Match: "lock:*", Clock: clock, Seen: func(r *Result) {
		if !ready && len(r.Evidence.Keys) == keys {
			ready = true
			fmt.Println("ready")
		}
	}})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r.Cost)
}

// stoppable is the machine's clock, whose elapsed time stands still when it is told to: nothing that waits on it comes
// to its end then.
type stoppable struct {
	mu      sync.Mutex
	running bool
	since   time.Time
	passed  time.Duration // before since
	waiting map[chan time.Time]*stopped
}

type stopped struct {
	end   time.Duration // elapsed
	timer *time.Timer
}

func newStoppable() *stoppable {
	return &stoppable{running: true, since: time.Now(), waiting: map[chan time.Time]*stopped{}}
}

func (s *stoppable) Now() time.Time { return time.Now() }

func (s *stoppable) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed()
}

func (s *stoppable) elapsed() time.Duration {
	if !s.running {
		return s.passed
	}
	return s.passed + time.Since(s.since)
}

func (s *stoppable) After(d time.Duration) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan time.Time, 1)
	w := &stopped{end: s.elapsed() + d}
	s.waiting[c] = w
	if s.running {
		s.set(c, w)
	}
	return c
}

func (s *stoppable) set(c chan time.Time, w *stopped) {
	w.timer = time.AfterFunc(w.end-s.elapsed(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[c] == w && s.running {
			delete(s.waiting, c)
			c <- time.Now()
		}
	})
}

func (s *stoppable) run(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on == s.running {
		return
	}
	s.passed, s.since, s.running = s.elapsed(), time.Now(), on
	for c, w := range s.waiting {
		if on {
			s.set(c, w)
		} else {
			w.timer.Stop()
		}
	}
}

func TestAStoppedClockEndsNoWait(t *testing.T) {
	s := newStoppable()
	s.run(false)
	c, passed := s.After(time.Nanosecond), s.Elapsed()
	if s.Elapsed() != passed {
		t.Error("it goes on")
	}
	select {
	case <-c:
		t.Error("a wait ended")
	default:
	}
	s.run(true)
	<-c
	if s.Elapsed() <= passed {
		t.Error("it stands still")
	}
}
