// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func wantUnsure(t *testing.T, err error) backend.Grant {
	t.Helper()
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) || unsure.Grant == nil {
		t.Fatalf("%v (%T), want an UnsureError", err, err)
	}
	return unsure.Grant
}

// undo releases until the answer is certain, as a Client does.
func undo(t *testing.T, g backend.Grant) {
	t.Helper()
	var err error
	for range 100 {
		if err = g.Release(bg); err == nil {
			return
		}
	}
	t.Fatalf("never certain: %v", err)
}

func TestRefusedConnectionIsNoUnsureError(t *testing.T) {
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
		b, err := legacy.New(pool, legacy.Config{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Contract().Try(bg, "k", ttl)
		var unsure *backend.UnsureError
		if err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

func TestSilentServerEndsTryByTimeout(t *testing.T) {
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Times: -1, Do: redistest.Silence})
		b, err := legacy.New(pool, legacy.Config{Mode: mode, Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Contract().Try(bg, "k", ttl)
		g := wantUnsure(t, err)
		if err := g.Release(bg); err == nil {
			t.Errorf("%v: a release without a reply succeeded", mode)
		}
	}
}

func TestPoolLimitsDoNotAffectLocks(t *testing.T) {
	w := redistest.New(t)
	pool := w.Pool()
	pool.MaxActive, pool.Wait = 1, false
	user := pool.Get()
	defer user.Close()
	b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g := try(t, b, "k", ttl)
	pool.Close()
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
	if _, err := legacy.New(nil, legacy.Config{Mode: legacy.Verbatim}); err == nil {
		t.Error("a nil pool was accepted")
	}
}
