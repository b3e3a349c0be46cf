package modern_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func fenceOf(g lock.Grant) int64 { return g.(lock.Fenced).Fence() }

// TestTheServersClockIsReadOnceInAWhile: in between it is told, and the numbers are the same.
func TestTheServersClockIsReadOnceInAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fence: true})
		free(t, try(t, b, "k"))
		for _, c := range []struct {
			pass time.Duration
			told bool
		}{{0, true}, {30 * time.Millisecond, true}, {69 * time.Millisecond, true}, {time.Millisecond, false}, {99 * time.Millisecond, true}, {time.Minute, false}} {
			w.Pass(c.pass)
			wire.Forget()
			g := try(t, b, "k")
			if told := clockTold(wire); told != c.told {
				t.Errorf("%v later: told %v", c.pass, told)
			}
			if c.pass > 0 && fenceOf(g)+7 != w.ServerNow().UnixMicro() {
				t.Errorf("%v later: %d to …+7 at %d", c.pass, fenceOf(g), w.ServerNow().UnixMicro())
			}
			free(t, g)
		}
		// Behind the next connection there may be another server.
		wire.Fault(redistest.Rule{When: writes, Do: redistest.CutAfter})
		_, err := b.Try(bg, "k", ttl)
		free(t, unsure(t, err))
		synctest.Wait() // for all that hear of the end
		wire.Forget()
		free(t, try(t, b, "k"))
		if clockTold(wire) {
			t.Error("what another connection said of the clock is told")
		}
	})
}

// clockTold reports whether the acquisition that was sent first tells the server's clock.
func clockTold(wire *redistest.Wire) bool {
	return len(wire.Sent()[0]) == len(redistest.Command{"EVALSHA", "acquire", "2", "k", "gsl:fence:", "token", "ms", "clock"})
}

// TestBlocksOfNumbersNeverOverlap: not where the clock stands still, nor where it is read at one time and
// told at another, nor between leases that are taken and those that are passed on.
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

// TestACounterThatCannotBeReadStaysAsItWas: it belongs to somebody else.
func TestACounterThatCannotBeReadStaysAsItWas(t *testing.T) {
	for _, text := range []string{"abc", "", "9999999999999999999", "nan", "-inf x"} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b := open(t, w, modern.Config{Fence: true})
			for _, pass := range []time.Duration{0, time.Millisecond} {
				w.Pass(pass)
				w.Mini.Set("gsl:fence:", text)
				if _, err := b.Try(bg, "k", ttl); err == nil || !strings.Contains(err.Error(), "gsl:fence: holds no fencing number") {
					t.Errorf("error %v", err)
				}
				if now, _ := w.Mini.Get("gsl:fence:"); now != text || w.Mini.Exists("k") {
					t.Errorf("the counter was %q and is %q; the key exists: %v", text, now, w.Mini.Exists("k"))
				}
				w.Mini.Del("gsl:fence:")
				free(t, try(t, b, "k")) // so that the clock is told the next time
			}
		})
	}
}
