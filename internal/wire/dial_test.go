// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestRefusedDialSaysWhatWasTriedAndIsRepeated(t *testing.T) {
	m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:1") }},
		Options{})
	_, err := m.Do(bg, "SET", "k", "v")
	notSent(t, err, nil)
	if !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(Explain(err), "nothing listens") {
		t.Errorf("error is %q: %s", err, Explain(err))
	}

	m = open(t, redistest.New(t).FaultyPool(redistest.Rule{Command: redistest.Dialing, Do: redistest.Refuse}),
		Options{})
	_, err = m.Do(bg, "SET", "k", "v")
	notSent(t, err, nil)
	works(t, m)
}

func TestDialErrorsShowNoPassword(t *testing.T) {
	for _, raw := range []string{
		"redis://:hunter2@host:port",
		"redis://user:hunter2/@x@host:port",
		"redis://hunter2@host:port/0",
		"redis:user:hunter2@host",
		"redis://user:hunter2@127.0.0.1:1/0/0",
	} {
		m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			c, err := redis.DialURL(raw)
			if err != nil {
				err = fmt.Errorf("cannot use %s: %w", raw, err)
			}
			return c, err
		}}, Options{})
		_, err := m.Do(bg, "PING")
		notSent(t, err, nil)
		if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "dialing Redis: ") {
			t.Errorf("error is %q", err)
		}
	}
}

func TestHangingDialEndsWithTimeoutOrContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		var dials atomic.Int32
		m := open(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}, Options{Timeout: time.Second})
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(bg, time.Millisecond)
			defer cancel()
			_, err := m.Do(ctx, "PING")
			notSent(t, err, context.DeadlineExceeded)
			if took := time.Since(begun); took != time.Millisecond {
				t.Errorf("the impatient caller left after %v", took)
			}
		})
		for range 10 {
			wg.Go(func() {
				_, err := m.Do(bg, "PING")
				notSent(t, err, ErrTimeout)
				if took := time.Since(begun); took != time.Second {
					t.Errorf("the dial was given up after %v", took)
				}
			})
		}
		wg.Wait()
		if n := dials.Load(); n != 1 {
			t.Errorf("eleven callers dialed %d times", n)
		}
	})
}

// A pool's own time limit is often as long as that of the Mux, and either may
// end first. Both say the same.
func TestTimeoutOfTheHookIsSilenceToo(t *testing.T) {
	m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}}, Options{})
	_, err := m.Do(bg, "PING")
	notSent(t, err, ErrTimeout)
	if !strings.Contains(Explain(err), "silent") || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("error is %q: %s", err, Explain(err))
	}
}

// The network swallowed the packets of many dials, and then the server can be
// reached again. The client must find that out.
func TestHungDialsDelayTheNextDials(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		hang, pool := make(chan struct{}), w.Pool()
		late := newStub()
		var dials atomic.Int64
		var healthy atomic.Bool
		m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			if healthy.Load() {
				return pool.DialContext(bg)
			}
			if dials.Add(1) == 1 {
				<-hang
				return late, nil
			}
			<-hang
			return nil, errors.New("late")
		}}, Options{Timeout: time.Second})
		begun := time.Now()
		for time.Since(begun) < time.Hour {
			_, err := m.Do(bg, "PING")
			var hung *hungError
			switch {
			case errors.As(err, &hung) && hung.hung < fewHung:
				t.Fatalf("with %d hooks that hang: %v", hung.hung, err)
			case errors.As(err, &hung):
				if hung.wait > longestWait || !strings.Contains(Explain(err), "DialContext") {
					t.Fatalf("%v: %s", err, Explain(err))
				}
				time.Sleep(hung.wait)
			}
			notSent(t, err, nil)
		}
		if n, did := int(time.Hour/longestWait), int(dials.Load()); did < n-10 || did > n+10 {
			t.Errorf("%d dials in an hour, want about %d", did, n)
		}
		healthy.Store(true)
		time.Sleep(longestWait)
		works(t, m)
		close(hang)
		<-late.closed
		synctest.Wait()
		if m.dials.hung != 0 {
			t.Errorf("%d hooks count as hung after all returned", m.dials.hung)
		}
	})
}

func TestHookThatEndsAsItIsGivenUpIsNotCounted(t *testing.T) {
	s := newStub()
	m := &Mux{}
	m.giveUp(&opening{of: &m.dials, conn: s, ended: true})
	<-s.closed
	if m.dials.hung != 0 {
		t.Errorf("%d hooks count as hung", m.dials.hung)
	}
}

func TestCloseWaitsForAHangingHookNoLongerThanTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		hang := make(chan struct{})
		defer close(hang)
		m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			<-hang
			return nil, errors.New("late")
		}}, Options{Timeout: time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(bg, "PING")
			notSent(t, err, ErrClosed)
		})
		time.Sleep(400 * time.Millisecond)
		begun := time.Now()
		m.Close()
		if took := time.Since(begun); took != 600*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		wg.Wait()
	})
}

func TestSetupRunsOnEachNewConnectionFirst(t *testing.T) {
	wire := redistest.New(t).Wire()
	m := open(t, wire.Pool(), Options{Setup: func(c redis.Conn) error {
		_, err := c.Do("ECHO", "setup")
		return err
	}})
	works(t, m)
	wire.Fault(redistest.Rule{Command: "PING", Do: redistest.CutBefore})
	_, err := m.Do(bg, "PING")
	unknown(t, err, ErrLost)
	works(t, m)
	if sent := wire.Sent(); sent[0][1] != "setup" || sent[3][1] != "setup" {
		t.Errorf("sent %v", sent)
	}
}

func TestSetupThatFailsOrHangsIsAFailedDial(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		refusal := errors.New("not this one")
		setup := func(redis.Conn) error { return refusal }
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{
			Timeout: time.Second, Setup: func(c redis.Conn) error { return setup(c) }})
		_, err := m.Do(bg, "PING")
		notSent(t, err, refusal)

		setup = func(c redis.Conn) error { _, err := c.Do("PING"); return err }
		wire.Fault(redistest.Rule{Command: "PING", Do: redistest.Silence})
		begun := time.Now()
		_, err = m.Do(bg, "PING")
		notSent(t, err, ErrTimeout)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the setup was given up after %v", took)
		}
		synctest.Wait()
		if n := wire.Connections(); n != 0 {
			t.Errorf("%d connections were left open", n)
		}
		works(t, m)
	})
}

func TestHookThatReturnsNothingIsAnError(t *testing.T) {
	m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) { return nil, nil }}, Options{})
	_, err := m.Do(bg, "PING")
	notSent(t, err, errNoConn)
}

func TestCallerGetsAnErrorIfConnectionsDieAtOnce(t *testing.T) {
	m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
		s := newStub()
		s.Close()
		return s, nil
	}}, Options{})
	if _, err := m.Do(bg, "PING"); !errors.Is(err, ErrLost) {
		t.Errorf("error is %v", err)
	}
}

// The hook obeys its context and says what it had tried.
func TestDialGivenUpReturnsTheHooksError(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := open(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			<-ctx.Done()
			return nil, errors.New("sentinel a: silent; sentinel b: knows no master")
		}}, Options{})
		_, err := m.Do(bg, "PING")
		notSent(t, err, ErrTimeout)
		if !strings.Contains(err.Error(), "sentinel b: knows no master") {
			t.Error(err)
		}
	})
}

// The server answers, but not in Redis's protocol.
func TestExplainNamesAServerOfAnotherKind(t *testing.T) {
	m := open(t, redistest.New(t).FaultyPool(
		redistest.Rule{Command: "PING", Do: redistest.Reply("HTTP/1.1 400 Bad Request\r\n")}), Options{})
	_, err := m.Do(bg, "PING")
	if !strings.Contains(Explain(err), "protocol") {
		t.Errorf("%v: %s", err, Explain(err))
	}
}
