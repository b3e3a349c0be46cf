// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// These are the nine steps by which two JedisUUID clients come to hold one
// lock, with all clocks right.
func TestVerbatimJedisUUIDGrantsTwice(t *testing.T) {
	w := redistest.New(t)
	cfg := legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.JedisUUID(),
		Clock: w.Clock(redistest.Skew{})}
	a := open(t, w, cfg)
	p := newTap(w)
	b, err := legacy.New(p.pool(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dead, _ := cfg.Dialect.Stamp(w.Now().Add(-2*time.Minute), time.Minute, cfg.Dialect.NewID([16]byte{9}))
	w.Mini.Set("k", dead)
	p.act("GETSET", func() { try(t, a, "k", time.Minute) }) // between b's GET and its GETSET
	if _, err := b.Contract().Try(bg, "k", time.Minute); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("the loser of the takeover: %v", err)
	}
	g := try(t, b, "k", time.Minute) // its next poll finds its own uuid
	if words := strings.Join(p.take(), " "); strings.Count(words, "GETSET") != 2 {
		t.Errorf("on the wire: %s", words)
	}
	// The same backend does not get the key twice: another attempt is another
	// lock object.
	if _, err := b.Contract().Try(bg, "k", time.Minute); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("while it is held by this backend: %v", err)
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

func TestThrownErrorNamesValue(t *testing.T) {
	w := redistest.New(t)
	b := open(t, w, legacy.Config{Mode: legacy.Verbatim})
	w.Mini.Set("k", "0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a:1772452000000")
	_, err := b.Contract().Try(bg, "k", time.Minute)
	var thrown *legacy.ThrownError
	if !errors.As(err, &thrown) || thrown.Command != "GET" || !strings.Contains(err.Error(), "JedisUUID") ||
		!errors.Is(err, backend.ErrNoRetry) {
		t.Errorf("%v", err)
	}
	client, err := lock.New(b, lock.Config{Clock: w.Clock(redistest.Skew{})})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(bg)
	if _, err := client.Acquire(bg, "k"); !errors.As(err, &thrown) {
		t.Errorf("through a Client: %v", err)
	}
}

func TestGrantsOfAnotherBackendAreRefused(t *testing.T) {
	w := redistest.New(t)
	v, h := open(t, w, legacy.Config{Mode: legacy.Verbatim}), open(t, w, legacy.Config{Mode: legacy.Hardened})
	gv, gh := try(t, v, "a", ttl), try(t, h, "b", ttl)
	another := try(t, open(t, w, legacy.Config{Mode: legacy.Hardened}), "c", ttl)
	if _, err := watches.One(bg, v.Contract().(backend.Waker), gh, func() {}); err == nil {
		t.Error("Verbatim watches a hardened grant")
	}
	if _, err := watches.One(bg, h.Contract().(backend.Waker), gv, func() {}); err == nil {
		t.Error("Hardened watches a verbatim grant")
	}
	terms, errs := h.Contract().(backend.BatchExtender).ExtendAll(bg, []backend.Grant{gv, another, gh}, ttl)
	if errs[0] == nil || errs[1] == nil || errs[2] != nil || terms[2].TTL != ttl {
		t.Errorf("%v %v", terms, errs)
	}
}

func TestVerbatimIsWakelessUnlessAsked(t *testing.T) {
	w := redistest.New(t)
	for _, c := range []struct {
		cfg  legacy.Config
		sent int
	}{
		{legacy.Config{Mode: legacy.Verbatim}, 0},
		{legacy.Config{Mode: legacy.Hardened, Wake: lock.WakeOff}, 0},
	} {
		wire := w.Wire()
		b, err := legacy.New(wire.Pool(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, _, err := b.Contract().(backend.Waker).Await(bg, "k", func() {}); !errors.Is(err,
			backend.ErrNoWake) {
			t.Errorf("%v", err)
		}
		if n := wire.Count(""); n != 0 {
			t.Errorf("%d commands sent", n)
		}
	}
}
