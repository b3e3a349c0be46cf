// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// ears count what a Notices tells on the channel "news" of a tracking server.
type ears struct {
	*Notices
	t      *testing.T
	mu     sync.Mutex
	told   []string
	missed int
}

func listen(t *testing.T, m *Mux) *ears {
	e := &ears{t: t}
	e.Notices = m.Notices("news", Ears{
		Told:   func(message []byte) { e.mu.Lock(); e.told = append(e.told, string(message)); e.mu.Unlock() },
		Missed: func() { e.mu.Lock(); e.missed++; e.mu.Unlock() },
		Wanted: func() bool { return true },
	})
	return e
}

func (e *ears) open() {
	e.t.Helper()
	if err := e.Open(bg); err != nil {
		e.t.Fatal(err)
	}
}

// hear fails the test unless a message that is published now arrives, and the
// subscriber has reported so many losses.
func (e *ears) hear(f *tracking, missed int) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	e.told = nil
	e.mu.Unlock()
	f.publish("a message")
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.told, []string{"a message"}) || e.missed != missed {
		e.t.Errorf("heard %q, and of %d losses, want %d", e.told, e.missed, missed)
	}
}

// wake fails the test unless a change of a key that is watched now wakes.
func (r *rings) wake(f *tracking) {
	r.t.Helper()
	r.mu.Lock()
	clear(r.counts)
	r.mu.Unlock()
	r.arm("woken")
	synctest.Wait()
	f.changed("woken")
	r.are(map[string]int{"woken": 1})
}

// calm ends all faults.
func (f *tracking) calm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.refuse)
	f.mute, f.hangUp = "", ""
}

// connections fails the test unless n are open.
func (f *tracking) connections(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	if open := f.srv.ClientsLen(); open != n {
		t.Errorf("%d connections are open, want %d", open, n)
	}
}

// The first to come has a connection, which the second shares or replaces.
func TestOneConnectionBringsChangesAndNotices(t *testing.T) {
	for _, order := range []string{"tracker first", "notices first"} {
		t.Run(order, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				e, missed := listen(t, m), 0
				if order == "notices first" {
					e.open()
					e.hear(f, 0)
					missed = 1
				}
				r.wake(f)
				e.open()
				e.hear(f, missed)
				r.wake(f)
				f.connections(t, 2)
				if n := f.dials(); n != 2+missed {
					t.Errorf("dialed %d times", n)
				}
			})
		})
	}
}

// The server refuses the tracker's commands, or a proxy swallows them or hangs
// up. That costs the notices nothing, before the first Open and after it.
func TestNoticesWorkWhereTrackingDoesNot(t *testing.T) {
	for what, fail := range map[string]func(f *tracking){
		"no CLIENT ID": func(f *tracking) { f.refuse["CLIENT ID"] = redistest.NoPerm },
		"no channel": func(f *tracking) {
			f.refuse["SUBSCRIBE "+strings.ToUpper(invalidate)] = redistest.NoPerm
		},
		"no TRACKING": func(f *tracking) { f.refuse["CLIENT TRACKING"] = redistest.NoPerm },
		"swallowed":   func(f *tracking) { f.mute = "CLIENT" },
		"hung up":     func(f *tracking) { f.hangUp = "CLIENT" },
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint(what, " and notices first is ", first), func(t *testing.T) {
				tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
					fail(f)
					if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
						t.Fatal(err)
					}
					e, l := listen(t, m), m.link.Load()
					if first {
						e.open()
					}
					for range 3 {
						if _, err := r.tr.Arm(bg, "k", nil); err == nil {
							t.Fatal("armed")
						}
						e.open()
						e.hear(f, 0)
						time.Sleep(longestPause)
					}
					if m.link.Load() != l {
						t.Error("the connection of the commands was lost")
					}
					f.calm()
					f.cut(0) // another connection is asked again
					synctest.Wait()
					_, _ = r.tr.Arm(bg, "k", func() {})
					synctest.Wait()
					r.wake(f)
					e.hear(f, 1)
				})
			})
		}
	}
}

// Once the server allows the channel, notices come too.
func TestTrackerWorksWhereNoticesDoNot(t *testing.T) {
	for what, fail := range map[string]func(f *tracking){
		"refused":   func(f *tracking) { f.refuse["SUBSCRIBE NEWS"] = redistest.NoPerm },
		"swallowed": func(f *tracking) { f.mute = "SUBSCRIBE NEWS" },
	} {
		t.Run(what, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				fail(f)
				e := listen(t, m)
				if what == "refused" {
					r.arm("a")
				}
				for i := range 3 {
					if err := e.Open(bg); err == nil {
						t.Fatal("subscribed")
					}
					if what == "swallowed" && i == 0 {
						r.arm("a")
					}
					time.Sleep(longestPause)
					f.connections(t, 2)
				}
				r.are(map[string]int{})
				f.calm()
				_ = e.Open(bg) // this begins the attempt that works
				r.are(map[string]int{"a": 1})
				r.wake(f)
				e.open()
				e.hear(f, 1)
				f.connections(t, 2)
			})
		})
	}
}

// The other connection goes on: a process that does not listen is passed over.
func TestNoticesOutliveTheCommandsConnection(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		e := listen(t, m)
		r.arm("a")
		f.cut(0)
		r.are(map[string]int{"a": 1})
		e.hear(f, 0)
		f.connections(t, 1)
		r.wake(f) // on another pair of connections
		e.hear(f, 1)
		f.connections(t, 2)
	})
}

// Each waits for the attempt that is under way, and then for its own. The
// server may refuse one of the two.
func TestWatchAndNoticesMayBeginTogether(t *testing.T) {
	for i := range 300 {
		tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
			deaf, blind := i%3 == 1, i%3 == 2
			if deaf {
				f.refuse["SUBSCRIBE NEWS"] = redistest.NoPerm
			}
			if blind {
				f.refuse["CLIENT TRACKING"] = redistest.NoPerm
			}
			e := listen(t, m)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := r.tr.Arm(bg, "a", func() {}); (err != nil) != blind {
						t.Errorf("watched: %v", err)
					}
				})
				wg.Go(func() {
					if err := e.Open(bg); (err != nil) != deaf {
						t.Errorf("subscribed: %v", err)
					}
				})
			}
			wg.Wait()
			f.connections(t, 2)
			if !deaf && !blind {
				e.open()
				r.wake(f)
				e.hear(f, e.missed)
			}
		})
	}
}

// It is noticed while a goroutine waits, for a change or for a message.
func TestSilentSubscriberIsNoticedInTwoTimeouts(t *testing.T) {
	for _, waits := range []string{"for a change", "for a message"} {
		t.Run(waits, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				rung, begun := make(chan time.Duration, 2), time.Now()
				ring := func() { rung <- time.Since(begun) }
				n := m.Notices("news",
					Ears{Missed: ring, Wanted: func() bool { return waits == "for a message" }})
				if err := n.Open(bg); err != nil {
					t.Fatal(err)
				}
				if waits == "for a change" {
					r.tr.Arm(bg, "a", ring)
					<-rung // of the connection that was replaced
				}
				time.Sleep(time.Minute)
				if len(rung) > 0 {
					t.Fatal("a subscriber that answers was taken for dead")
				}
				if n := f.pinged(); n < 55 {
					t.Errorf("%d pings in a silent minute", n)
				}
				f.mu.Lock()
				f.deaf = true
				f.mu.Unlock()
				if took := <-rung; took > time.Minute+2*time.Second {
					t.Errorf("noticed after %v", took)
				}
			})
		})
	}
}

// It is tried in the background. The server refused it for a moment, or for
// good, or a proxy swallows it or hangs up. No caller waits for another
// attempt, and the number of attempts is bounded.
func TestFailedSubscriptionIsTriedAgain(t *testing.T) {
	refuse := func(what, said string) func(*tracking) {
		return func(f *tracking) { f.refuse[what] = said }
	}
	swallow := func(f *tracking) { f.mute = "SUBSCRIBE" }
	hangUp := func(f *tracking) { f.hangUp = "SUBSCRIBE" }
	const busy = "BUSY Redis is busy running a script."
	for _, c := range []struct {
		name   string
		fail   func(*tracking)
		within time.Duration // longest time until it works again after the cause is gone
		most   int           // attempts within an hour
		arms   bool          // for a watch, not for messages
		noWake bool          // the error soon wraps ErrNoWake
	}{
		{"busy", refuse("SUBSCRIBE NEWS", busy), longestPassing, 130, false, false},
		{"refused", refuse("SUBSCRIBE NEWS", redistest.NoPerm), longestPause, 7, false, false},
		{"swallowed", swallow, longestPause, 16, false, false},
		{"hung up", hangUp, longestPause, 16, false, false},
		{"watch, busy", refuse("CLIENT TRACKING", busy), longestPassing, 130, true, false},
		{"watch, swallowed", swallow, longestPause, 16, true, true},
		{"watch, hung up", hangUp, longestPause, 16, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
				if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
					t.Fatal(err)
				}
				subscribe := listen(t, m).Open
				if c.arms {
					subscribe = func(ctx context.Context) error {
						_, err := r.tr.Arm(ctx, "k", func() {})
						return err
					}
				}
				c.fail(f)
				if err := subscribe(bg); err == nil || errors.Is(err, ErrNoWake) {
					t.Fatal(err)
				}
				for i := range 3600 {
					begun := time.Now()
					err := subscribe(bg)
					if took := time.Since(begun); err == nil || took != 0 ||
						i > 60 && errors.Is(err, ErrNoWake) != c.noWake {
						t.Fatalf("%v after %v", err, took)
					}
					time.Sleep(time.Second)
				}
				if n := f.dials() - 1; n < 2 || n > c.most {
					t.Errorf("%d attempts in an hour, want at most %d", n, c.most)
				}
				f.calm()
				time.Sleep(c.within)
				_ = subscribe(bg) // this begins the attempt that works
				synctest.Wait()
				if err := subscribe(bg); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The server before had refused.
func TestAnotherServerIsAskedToSubscribeAtOnce(t *testing.T) {
	tracked(t, func(t *testing.T, f *tracking, m *Mux, r *rings) {
		f.refuse["SUBSCRIBE NEWS"] = redistest.NoPerm
		e := listen(t, m)
		if err := e.Open(bg); !IsNoPerm(err) {
			t.Fatal(err)
		}
		f.calm()
		e.Anew()
		e.open()
		e.hear(f, 0)
	})
}
