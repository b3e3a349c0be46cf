// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// tracking is a server that knows only what a subscriber needs. So a test can
// refuse each part, fall silent and break each connection. tracker_real_test.go
// shows what real servers do.
type tracking struct {
	srv *server.Server

	mu      sync.Mutex
	peers   []*server.Peer // their index is their client id
	conns   []net.Conn     // the clients' ends, in the same order
	on      map[*server.Peer]int
	refuse  map[string]string // an error reply by the command's first two words
	mute    string            // the command that goes unanswered, or its first two words
	hangUp  string            // the command that ends its connection
	hearers []*server.Peer    // connections that subscribed to "news"
	deaf    bool              // PING goes unanswered
	pings   int
	runIDs  []string // run id of each connection; the last one is for all further connections
	wrong   []string
	dialErr error
	tracks  func() // called when tracking is turned on
}

func newTracking(t *testing.T) *tracking {
	f := &tracking{srv: server.NewServerConn(), on: map[*server.Peer]int{}, refuse: map[string]string{},
		runIDs: []string{"one"}}
	f.srv.SetPreHook(f.handle)
	t.Cleanup(func() {
		f.srv.Close()
		for _, w := range f.wrong {
			t.Error(w)
		}
	})
	return f
}

func (f *tracking) pool() *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.dialErr != nil {
			return nil, f.dialErr
		}
		near, far := net.Pipe()
		f.conns = append(f.conns, near)
		f.srv.ServeConn(far)
		return redis.NewConn(near, 0, 0), nil
	}}
}

// id gives each peer the number of its connection: dials and first commands
// alternate in a Tracker.
func (f *tracking) id(p *server.Peer) int {
	for i := range f.peers {
		if f.peers[i] == p {
			return i
		}
	}
	f.peers = append(f.peers, p)
	return len(f.peers) - 1
}

func (f *tracking) handle(p *server.Peer, cmd string, args ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.id(p)
	what := strings.ToUpper(strings.Join(append([]string{cmd}, args[:min(1, len(args))]...), " "))
	switch {
	case cmd == f.mute || what == f.mute:
		return true
	case cmd == f.hangUp:
		p.Close()
		return true
	}
	if said, ok := f.refuse[what]; ok {
		p.WriteError(said)
		return true
	}
	switch what {
	case "CLIENT ID":
		p.WriteInt(id)
	case "INFO SERVER":
		p.WriteBulk("# Server\r\nrun_id:" + f.runIDs[min(id, len(f.runIDs)-1)] + "\r\n")
	case "SUBSCRIBE NEWS":
		f.hearers = append(f.hearers, p)
		fallthrough
	case "SUBSCRIBE " + strings.ToUpper(invalidate):
		p.WriteRaw(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(args[0]), args[0]))
	case "CLIENT TRACKING":
		to, err := strconv.Atoi(args[3])
		if got := strings.Join(args, " "); err != nil ||
			got != fmt.Sprintf("TRACKING ON REDIRECT %d OPTIN NOLOOP", to) {
			f.wrong = append(f.wrong, "tracking asked for as "+got)
		}
		f.on[p] = to
		p.WriteOK()
		if f.tracks != nil {
			f.tracks()
		}
	case "CLIENT CACHING":
		if _, ok := f.on[p]; !ok {
			p.WriteError("ERR CLIENT CACHING can be called only when the client is in tracking mode")
			break
		}
		p.WriteOK()
	case "PING":
		f.pings++
		if !f.deaf {
			p.WriteRaw("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
		}
	default:
		p.WriteOK()
	}
	return true
}

// tell sends a message with the raw payload to the connection that tracking
// redirects to.
func (f *tracking) tell(payload string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, to := range f.on {
		p := f.peers[to]
		p.WriteRaw(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n%s", len(invalidate), invalidate,
			payload))
		p.Flush()
	}
}

func (f *tracking) changed(keys ...string) {
	payload := fmt.Sprintf("*%d\r\n", len(keys))
	for _, k := range keys {
		payload += fmt.Sprintf("$%d\r\n%s\r\n", len(k), k)
	}
	f.tell(payload)
}

// publish sends a message on the channel "news".
func (f *tracking) publish(message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.hearers {
		p.WriteRaw(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$%d\r\n%s\r\n", len(message), message))
		p.Flush()
	}
}

// cut ends the n-th connection: 0 is the Mux's, 1 its subscriber.
func (f *tracking) cut(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[n].Close()
	if n < len(f.peers) {
		delete(f.on, f.peers[n]) // the server sends nothing for a client that is gone
	}
}

func (f *tracking) dials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

func (f *tracking) pinged() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pings
}

// rings counts the calls of each armed watch.
type rings struct {
	t      *testing.T
	tr     *Tracker
	mu     sync.Mutex
	counts map[string]int
}

func (r *rings) arm(key string) (cancel func()) {
	r.t.Helper()
	cancel, err := r.tr.Arm(bg, key, func() { r.mu.Lock(); r.counts[key]++; r.mu.Unlock() })
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.tr.Do(bg, Cmd("GET", key)); err != nil {
		r.t.Fatal(err)
	}
	return cancel
}

// are fails the test unless exactly these calls were made so far.
func (r *rings) are(want map[string]int) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.counts) != fmt.Sprint(want) {
		r.t.Errorf("called %v, want %v", r.counts, want)
	}
}

func tracked(t *testing.T, test func(t *testing.T, f *tracking, m *Mux, r *rings)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newTracking(t)
		m := open(t, f.pool(), Options{Timeout: time.Second})
		t.Cleanup(func() {
			if t.Failed() { // else Close would wait for connections that the Mux has lost sight of
				for n := range f.dials() {
					f.cut(n)
				}
			}
		})
		test(t, f, m, &rings{t: t, tr: m.Tracker(), counts: map[string]int{}})
	})
}

func TestEveryWatchOfAChangedKeyIsCalledOnce(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		r.arm("a")
		r.arm("a")
		r.arm("b")
		r.arm("c")
		f.changed("a", "b")
		r.are(map[string]int{"a": 2, "b": 1})
		f.changed("a")
		r.are(map[string]int{"a": 2, "b": 1})
		r.arm("a")
		f.changed("a")
		r.are(map[string]int{"a": 3, "b": 1})
		if n := f.dials(); n != 2 {
			t.Errorf("dialed %d times", n)
		}
	})
}

func TestCancelledWatchIsNotCalled(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		one, two, three := r.arm("a"), r.arm("a"), r.arm("a")
		two()
		f.changed("a")
		r.are(map[string]int{"a": 2})
		one()
		three()
		two()
		r.arm("b")()
		f.changed("b")
		r.are(map[string]int{"a": 2})
		if n := len(m.sub.tracker.watches) + len(m.sub.tracker.others); n != 0 {
			t.Errorf("%d keys are still watched", n)
		}
	})
}

// A watch that is armed after that works.
func TestEveryWatchIsCalledWhereAChangeMayBeMissed(t *testing.T) {
	for name, c := range map[string]struct {
		lose        func(f *tracking, r *rings)
		stay, dials int // connections after it, and dials in all
	}{
		"commands cut off":   {func(f *tracking, _ *rings) { f.cut(0) }, 0, 4}, // the other one is of no use
		"subscriber cut off": {func(f *tracking, _ *rings) { f.cut(1) }, 1, 3},
		"flushed":            {func(f *tracking, _ *rings) { f.tell("*-1\r\n") }, 2, 2},
		"tracking forgotten": {func(f *tracking, r *rings) {
			f.mu.Lock()
			clear(f.on)
			f.mu.Unlock()
			_, _ = r.tr.Do(bg, Cmd("GET", "a"))
		}, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				r.arm("a")
				r.arm("b")
				c.lose(f, r)
				r.are(map[string]int{"a": 1, "b": 1})
				f.connections(t, c.stay)
				r.arm("a")
				f.changed("a")
				r.are(map[string]int{"a": 2, "b": 1})
				if n := f.dials(); n != c.dials {
					t.Errorf("dialed %d times, want %d", n, c.dials)
				}
			})
		})
	}
}

func TestLeavingAReplicaCallsEveryWatch(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		r.arm("a")
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		f.refuse["SET K"] = redistest.ReadOnly
		f.deaf = true // so one call stays in flight and the old connection lives on
		f.mu.Unlock()
		var wg sync.WaitGroup
		wg.Go(func() { m.Do(bg, "PING") })
		synctest.Wait()
		wg.Go(func() { m.Do(bg, "SET", "k", "v") })
		r.are(map[string]int{"a": 1})
		r.arm("a")
		f.changed("a")
		r.are(map[string]int{"a": 2})
		wg.Wait()
	})
}

func TestSubscriberSendsNoPingsWithoutWaiters(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		r.arm("a")()
		time.Sleep(time.Hour)
		if n := f.pinged(); n > 1 {
			t.Errorf("%d pings", n)
		}
	})
}

func TestRefusalLastsAsLongAsTheConnection(t *testing.T) {
	for _, what := range []string{"CLIENT ID", "SUBSCRIBE " + strings.ToUpper(invalidate),
		"CLIENT TRACKING"} {
		t.Run(what, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				f.refuse[what] = "NOPERM this user has no permissions"
				for range 5 {
					if _, err := m.Tracker().Arm(bg, "k", nil); !errors.Is(err, ErrNoWake) || !IsNoPerm(err) {
						t.Fatalf("error is %v", err)
					}
					time.Sleep(time.Minute)
				}
				if n := f.dials(); n != 2 {
					t.Errorf("dialed %d times", n)
				}
				delete(f.refuse, what)
				f.cut(0)
				synctest.Wait()
				r.arm("k")
				f.changed("k")
				r.are(map[string]int{"k": 1})
			})
		})
	}
}

func TestPassingTroubleIsTriedAgainAfterAPause(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		f.dialErr = errors.New("no room")
		for range 3 {
			_, err := m.Tracker().Arm(bg, "k", nil)
			if notSent(t, err, f.dialErr); errors.Is(err, ErrNoWake) {
				t.Fatalf("error is %v", err)
			}
		}
		room := f.dialErr
		f.dialErr = nil
		_, err := m.Tracker().Arm(bg, "k", nil)
		notSent(t, err, room)
		time.Sleep(time.Second)
		r.arm("k")
		f.changed("k")
		r.are(map[string]int{"k": 1})
	})
}

func TestRefusedDialIsNoRefusalToTrack(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
			t.Fatal(err)
		}
		f.dialErr = redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
		_, err := m.Tracker().Arm(bg, "k", nil)
		if notSent(t, err, f.dialErr); errors.Is(err, ErrNoWake) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestHookThatLeadsToSeveralServersCannotWake(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		f.runIDs = []string{"one", "two"}
		if _, err := m.Do(bg, "SET", "k", "v"); err != nil { // the shared connection is then the first
			t.Fatal(err)
		}
		if _, err := m.Tracker().Arm(bg, "k", nil); !errors.Is(err, ErrNoWake) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestWaitersShareOneSetupAndCanLeaveIt(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		hang := make(chan struct{})
		dial := m.dial
		m.dial = func(ctx context.Context) (redis.Conn, error) { <-hang; return dial(ctx) }
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(bg, time.Millisecond)
			defer cancel()
			_, err := r.tr.Arm(ctx, "a", nil)
			notSent(t, err, context.DeadlineExceeded)
		})
		for i := range 20 {
			wg.Go(func() { r.arm(fmt.Sprint(i)) })
		}
		time.Sleep(10 * time.Millisecond)
		close(hang)
		wg.Wait()
		if n := f.dials(); n != 2 {
			t.Errorf("dialed %d times", n)
		}
	})
}

func TestCloseEndsEveryWatch(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		r.arm("a")
		m.Close()
		r.are(map[string]int{"a": 1})
		_, err := r.tr.Arm(bg, "a", nil)
		notSent(t, err, ErrClosed)
	})
}

// In the tests below the end races with the setup of the watch on purpose, in
// as many ways as the scheduler finds.
func TestWatchArmedDuringALossIsCalled(t *testing.T) {
	for n := range 400 {
		tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
			if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			f.tracks = func() { go f.cut(n % 2) }
			f.mu.Unlock()
			rung := make(chan struct{})
			if _, err := r.tr.Arm(bg, "a", func() { close(rung) }); err != nil {
				return
			}
			synctest.Wait()
			f.changed("a") // for a watch set up again after the loss
			synctest.Wait()
			select {
			case <-rung:
			default:
				t.Fatal("a watch was armed and never called")
			}
		})
	}
}

func TestCloseDuringSetupLeavesNothing(t *testing.T) {
	for range 400 {
		tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
			f.mu.Lock()
			f.tracks = func() { go m.Close() }
			f.mu.Unlock()
			rung := make(chan struct{})
			if _, err := r.tr.Arm(bg, "a", func() { close(rung) }); err == nil {
				<-rung
			}
		})
	}
}

func TestWatchMayCallBackIntoItsOwner(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		var mu sync.Mutex
		if _, err := r.tr.Arm(bg, "a", func() { mu.Lock(); defer mu.Unlock() }); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		clear(f.on)
		r.tr.Do(bg, Cmd("GET", "a")) // finds tracking off and calls the watch, not on this goroutine
		mu.Unlock()
	})
}

func TestEmbeddedServerCannotWake(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		for range 3 {
			if _, err := m.Tracker().Arm(bg, "k", nil); !errors.Is(err, ErrNoWake) || !IsUnknownCommand(err) {
				t.Fatalf("error is %v", err)
			}
		}
		if n := wire.Count("CLIENT"); n != 1 {
			t.Errorf("the server was asked %d times", n)
		}
		works(t, m)
	})
}
