// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

// roles are what this binary does when a test starts it as another process.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	if play := roles[os.Getenv("MODERN_TEST_ROLE")]; play != nil {
		play()
		return
	}
	// Tests of real servers mostly wait, so all of them can run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	redistest.Main(m)
}

var bg = context.Background()

// What package lock calls is behind Contract: a user sees none of it.
func TestBackendShowsSixMethods(t *testing.T) {
	shown := reflect.TypeFor[*modern.Backend]()
	if n := shown.NumMethod(); n > 6 {
		t.Errorf("%d methods", n)
		for i := range n {
			t.Log(shown.Method(i).Name)
		}
	}
}

func open(t *testing.T, w *redistest.World, cfg modern.Config) *modern.Backend {
	t.Helper()
	return openOn(t, w.Pool(), cfg)
}

// openOn makes a Backend that is closed at the end of the test.
func openOn(t *testing.T, pool *redis.Pool, cfg modern.Config) *modern.Backend {
	t.Helper()
	b, err := modern.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestBackendPassesTheKit runs the kit on the embedded server, which cannot
// report changes.
func TestBackendPassesTheKit(t *testing.T) {
	for name, cfg := range map[string]modern.Config{
		"fair":       {Fair: true},
		"fair fence": {Fair: true, Fence: true},
		"plain":      {},
		"fence":      {Fence: true, Namespace: "n"},
		"note":       {Note: "host 7"},
		"polling":    {Wake: lock.WakeOff},
	} {
		t.Run(name, func(t *testing.T) {
			locktest.RunInBubbles(t, locktest.Traits{CannotWake: true, Barging: cfg.Wake == lock.WakeOff},
				func(t *testing.T) *locktest.World {
					w := redistest.Bubble(t)
					return &locktest.World{
						Backend: func() backend.Store {
							return openOn(t, w.Pool(), cfg)
						},
						Pass:  w.Pass,
						TTL:   10 * time.Second,
						Seize: func(key string) { w.Mini.Set(key, "thief"); w.Mini.SetTTL(key, time.Hour) },
					}
				})
		})
	}
}

func TestInspectReportsHolderNoteTimeAndNumber(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fence: true, Note: "host-7 pid 12"})
		if info, err := b.Inspect(bg, "k"); err != nil || info.Exists || info.Fence != 0 {
			t.Errorf("of a free key: %+v, %v", info, err)
		}
		g := try(t, b, "k")
		w.Pass(time.Second)
		info, err := b.Inspect(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		if info.Token+" "+info.Note != g.Token() || info.Note != "host-7 pid 12" || info.Value != g.Token() {
			t.Errorf("token %q, note %q of %q", info.Token, info.Note, g.Token())
		}
		if !info.HasTTL || info.Left != ttl-time.Second || info.Looks != "" {
			t.Errorf("%v left, with a TTL: %v; it looks like %q", info.Left, info.HasTTL, info.Looks)
		}
		if own := g.(backend.Fenced).Fence(); info.Fence < own || own == 0 {
			t.Errorf("the last number drawn is %d, and the holder has %d", info.Fence, own)
		}
		free(t, g)
	})
}
