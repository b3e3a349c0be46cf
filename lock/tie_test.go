package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// counting is a context that counts who listens for its end. It is none of the standard library's, which
// would look through it.
type counting struct {
	context.Context
	done chan struct{}

	mu    sync.Mutex
	err   error
	all   int
	funcs map[int]func()
}

func newCounting() *counting {
	return &counting{Context: context.Background(), done: make(chan struct{}), funcs: map[int]func(){}}
}

func (c *counting) Done() <-chan struct{} { return c.done }

func (c *counting) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *counting) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	id := c.all
	c.funcs[id] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.funcs[id]
		delete(c.funcs, id)
		return waits
	}
}

func (c *counting) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs)
}

func (c *counting) end() {
	c.mu.Lock()
	c.err = context.Canceled
	close(c.done)
	funcs := c.funcs
	c.funcs = nil
	c.mu.Unlock()
	for _, f := range funcs {
		go f()
	}
}

func TestLeasesOfOneContextShareARegistrationAndEndWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		const leases = 300
		c := client(t, s.Full(), lock.Config{})
		parent := newCounting()
		var held []*lock.Lease
		for i := range leases {
			l, err := c.Acquire(parent, fmt.Sprint("k", i))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
		}
		time.Sleep(time.Second) // short leases are not tied at all
		if n := parent.now(); n != 1 {
			t.Errorf("%d registrations", n)
		}
		rand.Shuffle(leases, func(i, j int) { held[i], held[j] = held[j], held[i] })
		for _, l := range held[:leases-20] {
			release(t, l)
		}
		parent.end()
		synctest.Wait()
		for i := range leases {
			if s.Holder(fmt.Sprint("k", i)) != "" {
				t.Errorf("k%d was not given back", i)
			}
		}
		for _, l := range held[leases-20:] {
			wantErr(t, l.Err(), context.Canceled)
		}
	})
}

func TestTheLastLeaseOfAContextLeavesNoRegistration(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, s.Full(), lock.Config{})
		parent := newCounting()
		for range 3 {
			l, err := c.Acquire(parent, "k")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			release(t, l)
		}
		if parent.now() != 0 || parent.all != 3 {
			t.Errorf("%d registrations of %d are left", parent.now(), parent.all)
		}
	})
}
