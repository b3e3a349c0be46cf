package modern_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func fenceOf(g lock.Grant) int64 { return g.(lock.Fenced).Fence() }

// In between numbers are counted on, in a transaction.
func TestBackendReadsTheServersClockOnceInAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fence: true})
		g := try(t, b, "k")
		last := fenceOf(g) + 7
		free(t, g)
		for _, c := range []struct {
			pass    time.Duration
			counted bool
		}{{0, true}, {30 * time.Millisecond, true}, {69 * time.Millisecond, true}, {time.Millisecond, false},
			{99 * time.Millisecond, true}, {time.Minute, false}} {
			w.Pass(c.pass)
			wire.Forget()
			g := try(t, b, "k")
			if counted := wasCounted(wire); counted != c.counted {
				t.Errorf("%v later: counted: %v", c.pass, counted)
			}
			if c.counted && fenceOf(g) != last+1 || !c.counted && fenceOf(g) != w.ServerNow().UnixMicro() {
				t.Errorf("%v later: %d after %d at %d", c.pass, fenceOf(g), last, w.ServerNow().UnixMicro())
			}
			if last = fenceOf(g); !c.counted {
				last += 7
			}
			free(t, g)
		}
		// The next connection may lead to another server.
		wire.Fault(redistest.Rule{When: writes(), Do: redistest.CutAfter})
		_, err := b.Try(bg, "k", ttl)
		free(t, unsure(t, err))
		synctest.Wait() // for every goroutine that notices the end
		wire.Forget()
		free(t, try(t, b, "k"))
		if wasCounted(wire) {
			t.Error("the number is counted on from another connection's reply")
		}
	})
}

// wasCounted reports whether the first acquisition that was sent counts on, in
// one transaction.
func wasCounted(wire *redistest.Wire) bool {
	sent := slices.DeleteFunc(wire.Sent(), ofProbe)
	return len(sent) >= 4 && sent[0].Is("MULTI") && sent[1].Is("SET") && sent[2].Is("INCR") &&
		sent[3].Is("EXEC")
}

// A client that asks for a held key again and again writes nothing after the
// first time. It counts on again when it has taken a key.
func TestOnlyTheFirstRefusalUsesUpANumber(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fence: true})
		other := open(t, w, modern.Config{})
		free(t, try(t, b, "k"))
		holder := try(t, other, "k")
		wire.Forget()
		for range 5 {
			if _, err := b.Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("of a held key: %v", err)
			}
		}
		if n := wire.Count("INCR"); n != 1 {
			t.Errorf("%d of five refusals used up a number", n)
		}
		free(t, holder)
		free(t, try(t, b, "k"))
		wire.Forget()
		free(t, try(t, b, "k"))
		if !wasCounted(wire) {
			t.Error("the number was not counted on after a success")
		}
	})
}

// A number is never smaller than an earlier one of this or another process,
// whatever happened to the counter since it was read.
func TestNumbersIncreaseAfterTheCounterIsGone(t *testing.T) {
	for name, spoil := range map[string]func(w *redistest.World, last int64){
		"deleted": func(w *redistest.World, _ int64) { w.Mini.Del("gsl:fence:") },
		"behind": func(w *redistest.World, last int64) {
			w.Mini.Set("gsl:fence:", strconv.FormatInt(last-9, 10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{Fence: true})
				g := try(t, b, "k")
				last := fenceOf(g) + 7
				free(t, g)
				w.Pass(time.Millisecond)
				spoil(w, last)
				wire.Forget()
				g = try(t, b, "k")
				if !wasCounted(wire) || fenceOf(g) <= last {
					t.Errorf("counted: %v; %d after %d", wasCounted(wire), fenceOf(g), last)
				}
				if left := w.Mini.TTL("k"); left != ttl {
					t.Errorf("TTL %v, not %v", left, ttl)
				}
				free(t, g)
			})
		})
	}
}

// The server refuses the whole transaction, or only its end.
func TestScriptsDrawIfTransactionsAreRefused(t *testing.T) {
	for _, refused := range []string{"MULTI", "EXEC"} {
		t.Run(refused, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{Fence: true})
				g := try(t, b, "k")
				last := fenceOf(g) + 7
				free(t, g)
				wire.Fault(redistest.Rule{
					Command: refused, Times: -1, Do: redistest.Answer(redistest.NoPerm)})
				for range 3 {
					g := try(t, b, "k")
					if fenceOf(g) <= last {
						t.Errorf("%d after %d", fenceOf(g), last)
					}
					last = fenceOf(g) + 7
					if held, _ := w.Mini.Get("k"); held != g.Token() || w.Mini.TTL("k") != ttl {
						t.Errorf("the key holds %s, for %v", held, w.Mini.TTL("k"))
					}
					if next, shared := g.(lock.Sharer).Share(); !shared || fenceOf(next) != fenceOf(g)+1 {
						t.Error("no block of numbers was drawn")
					} else {
						g = next
					}
					free(t, g)
				}
				if n := wire.Count("MULTI"); n != 1 {
					t.Errorf("transactions were tried %d times", n)
				}
			})
		})
	}
}

// The server refused MULTI, for a moment, and accepted the commands after it.
func TestKeyTakenDespiteARefusedMultiHasANumber(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fence: true})
		g := try(t, b, "k")
		last := fenceOf(g) + 7
		free(t, g)
		wire.Fault(redistest.Rule{Command: "MULTI", Do: redistest.Answer(redistest.Loading)})
		g = try(t, b, "k")
		if fenceOf(g) <= last {
			t.Errorf("%d after %d", fenceOf(g), last)
		}
		free(t, g)
		wire.Forget()
		free(t, try(t, b, "k"))
		if !wasCounted(wire) {
			t.Error("the number was not counted on afterwards")
		}
	})
}

// They must not overlap if the clock stands still, or if it is read at one time
// and told at another. Nor may they between leases that are taken and leases
// that are passed on.
func TestBlocksOfNumbersNeverOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		one, other := open(t, w, modern.Config{Fence: true}), open(t, w, modern.Config{Fence: true})
		last := int64(0)
		for i := range 40 {
			b := one
			if i%3 == 0 {
				b = other
			}
			g := try(t, b, "k")
			if i%5 == 0 {
				next, err := b.Pass(bg, g, ttl)
				if err != nil {
					t.Fatal(err)
				}
				g = next
			}
			for first := fenceOf(g); ; {
				if fence := fenceOf(g); fence <= last {
					t.Fatalf("%d after %d, in the block from %d", fence, last, first)
				} else {
					last = fence
				}
				next, ok := g.(lock.Sharer).Share()
				if !ok {
					if i%10 == 1 && fenceOf(g) != first+7 {
						t.Errorf("after a rest a block from %d to %d", first, fenceOf(g))
					}
					break
				}
				g = next
			}
			free(t, g)
			if w.Pass(time.Duration(i%9) * time.Microsecond); i%10 == 0 {
				w.Pass(time.Second)
			}
		}
	})
}

// The counter belongs to another program.
func TestUnreadableCounterStaysAsItWas(t *testing.T) {
	for _, text := range []string{"abc", "", "9999999999999999999", "nan", "-inf x"} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b := open(t, w, modern.Config{Fence: true})
			for _, pass := range []time.Duration{0, time.Millisecond} {
				w.Pass(pass)
				w.Mini.Set("gsl:fence:", text)
				_, err := b.Try(bg, "k", ttl)
				if err == nil || !strings.Contains(err.Error(), "gsl:fence: holds no fencing number") {
					t.Errorf("error %v", err)
				}
				if taken := (*lock.UnsureError)(nil); errors.As(err, &taken) {
					free(t, taken.Grant)
				}
				if now, _ := w.Mini.Get("gsl:fence:"); now != text || w.Mini.Exists("k") {
					t.Errorf("the counter was %q and is %q; the key exists: %v", text, now,
						w.Mini.Exists("k"))
				}
				w.Mini.Del("gsl:fence:")
				free(t, try(t, b, "k")) // the next number is then counted on
			}
		})
	}
}

// Envoy answers TIME itself, in microseconds since 1970, if the server is too
// old to read its clock in a script.
func TestProxysClockMovesNoNumber(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		reads := func(c redistest.Command) bool {
			return (c.Is("EVAL") || c.Is("EVALSHA")) && c[len(c)-1] == ""
		}
		b, _ := on(t, w, modern.Config{Fence: true},
			redistest.Rule{When: reads, Times: -1,
				Do: redistest.Answer("ERR Write commands not allowed after non deterministic commands")},
			redistest.Rule{Command: "TIME",
				Do: redistest.Reply("*2\r\n$10\r\n1764000000\r\n$16\r\n1764000000999999\r\n")})
		_, err := b.Try(bg, "k", ttl)
		if err == nil || errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "TIME answered") ||
			w.Mini.Exists("gsl:fence:") || w.Mini.Exists("k") {
			t.Errorf("%v; keys %q", err, w.Mini.Keys())
		}
		g := try(t, b, "k") // with the server's own clock
		if fence := fenceOf(g); fence != w.ServerNow().UnixMicro() {
			t.Errorf("number %d at %d", fence, w.ServerNow().UnixMicro())
		}
		free(t, g)
	})
}

// TestProxyThatHangsUpOnTransactions checks that such a proxy costs two
// connections in all, ten minutes apart, and that scripts draw the numbers. If
// a transaction was executed before, the connection ended for another reason.
func TestProxyThatHangsUpOnTransactions(t *testing.T) {
	for name, worked := range map[string]bool{"always": false, "after one was executed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{Fence: true})
				last := int64(0)
				draw := func() (lost bool) {
					g, err := b.Try(bg, "k", ttl)
					if err != nil {
						_ = unsure(t, err).Release(bg) // the attempt took nothing
						w.Pass(time.Millisecond)
						return true
					}
					if fence := fenceOf(g); fence <= last {
						t.Errorf("%d after %d", fence, last)
					} else {
						last = fence + 7
					}
					free(t, g)
					w.Pass(time.Millisecond)
					return false
				}
				if draw(); worked {
					draw()
				}
				wire.Fault(redistest.Rule{Command: "MULTI", Times: -1, Do: redistest.CutBefore})
				lost := 0
				for range 30 {
					for range 5 {
						if draw() {
							lost++
						}
					}
					w.Pass(time.Minute)
				}
				if worked && lost < 30 || !worked && lost != 2 {
					t.Errorf("%d attempts were lost", lost)
				}
			})
		})
	}
}
