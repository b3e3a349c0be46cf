// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func fenceOf(g backend.Grant) int64 { return g.(backend.Fenced).Fence() }

// A number is never smaller than an earlier one of this or another process,
// whatever happened to the counter since it was read.
func TestNumbersIncreaseAfterTheCounterIsGone(t *testing.T) {
	for name, spoil := range map[string]func(w *redistest.World, last int64){
		"deleted": func(w *redistest.World, _ int64) { w.Mini.Del("gsl:fence::{m5p}") },
		"behind": func(w *redistest.World, last int64) {
			w.Mini.Set("gsl:fence::{m5p}", strconv.FormatInt(last-9, 10))
		},
		"ahead of the server's clock": func(w *redistest.World, _ int64) { w.StepServer(-time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b := open(t, w, modern.Config{Fence: true})
				g := try(t, b, "k")
				last := fenceOf(g) + 7
				free(t, g)
				w.Pass(time.Millisecond)
				spoil(w, last)
				g = try(t, b, "k")
				if fenceOf(g) <= last {
					t.Errorf("%d after %d", fenceOf(g), last)
				}
				free(t, g)
			})
		})
	}
}

// They must not overlap if the clock stands still, or if it is read at one time
// and told at another. Nor may they between leases that are taken and leases
// that are given.
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
				p := stand(t, b, "k")
				free(t, g)
				g = got(t, p)
			}
			for first := fenceOf(g); ; {
				if fence := fenceOf(g); fence <= last {
					t.Fatalf("%d after %d, in the block from %d", fence, last, first)
				} else {
					last = fence
				}
				next, ok := g.(backend.Sharer).Share()
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
				w.Mini.Set("gsl:fence::{m5p}", text)
				_, err := b.Contract().Try(bg, "k", ttl)
				if err == nil || !strings.Contains(err.Error(), "gsl:fence::{m5p} holds no fencing number") {
					t.Errorf("error %v", err)
				}
				if taken := (*backend.UnsureError)(nil); errors.As(err, &taken) {
					free(t, taken.Grant)
				}
				if now, _ := w.Mini.Get("gsl:fence::{m5p}"); now != text || w.Mini.Exists("k") {
					t.Errorf("the counter was %q and is %q; the key exists: %v", text, now,
						w.Mini.Exists("k"))
				}
				w.Mini.Del("gsl:fence::{m5p}")
				free(t, try(t, b, "k"))
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
		_, err := b.Contract().Try(bg, "k", ttl)
		if err == nil || errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), "TIME answered") ||
			w.Mini.Exists("gsl:fence::{m5p}") || w.Mini.Exists("k") {
			t.Errorf("%v; keys %q", err, w.Mini.Keys())
		}
		g := try(t, b, "k") // with the server's own clock
		if fence := fenceOf(g); fence != w.ServerNow().UnixMicro() {
			t.Errorf("number %d at %d", fence, w.ServerNow().UnixMicro())
		}
		free(t, g)
	})
}
