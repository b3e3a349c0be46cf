// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// During a roll-out two versions of getsetlock work on one key. The vectors say
// what a version writes. These tests put each of those values on a server, as a
// client of the version before left it, and try to acquire with today's
// clients. They read today's vectors, and those that each release has put into
// testdata/released; see docs/internals/release.md.

// written are the vectors of all versions in a folder's files. Folders are the
// package's own and one for each release.
func written(t *testing.T, own, pattern string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range []string{own, "testdata/released/*"} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("no vectors %s in %s", pattern, own)
	}
	return texts
}

const rolloutTTL = 20 * time.Second

// attempt tries to acquire the key k and reports whether it was granted. A
// grant is released.
func attempt(t *testing.T, b backend.Store, key string) (granted bool) {
	t.Helper()
	g, err := b.Contract().Try(context.Background(), key, rolloutTTL)
	switch {
	case err == nil:
		if err := g.Release(context.Background()); err != nil {
			t.Error(err)
		}
		return true
	case errors.Is(err, lock.ErrHeld):
		return false
	}
	t.Error(err)
	return false
}

// tokenSet finds what package modern's vectors write on the lock's key.
var tokenSet = regexp.MustCompile(`(?m)^SET k (\S+|"[^"]*") NX`)

// TestTokensOfOtherVersionsHold puts the version before's tokens on a key, with
// their notes and reservations, and words that no version writes. Today's
// clients leave each alone until its TTL is over.
func TestTokensOfOtherVersionsHold(t *testing.T) {
	values := []string{"", " ", "a token of a later version\x00", "token-000000000000000001 reserved"}
	for name, text := range written(t, "../modern/testdata/vectors", "wire.txt") {
		found := tokenSet.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s: no token", name)
		}
		for _, m := range found {
			value := m[1]
			if s, err := strconv.Unquote(value); err == nil {
				value = s
			}
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
	}
	for form, cfg := range map[string]modern.Config{
		"plain": {}, "note": {Note: "host 7"}, "fence": {Fence: true}, "fair": {Fair: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := redistest.Bubble(t)
			b, err := modern.New(w.Pool(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			for _, value := range values {
				w.ServerNow()
				if err := w.Mini.Set("k", value); err != nil {
					t.Fatal(err)
				}
				w.Mini.SetTTL("k", rolloutTTL)
				if attempt(t, b, "k") {
					t.Errorf("%s: %q doesn't count as held", form, value)
				} else if got, _ := w.Mini.Get("k"); got != value {
					t.Errorf("%s: %q became %q", form, value, got)
				}
				w.Pass(rolloutTTL + time.Second)
				if !attempt(t, b, "k") {
					t.Errorf("%s: after the TTL of %q the key isn't free", form, value)
				}
			}
		})
	}
}

// guards are marks of the bridge as version 0 drew them. The vectors have the
// word GUARD in their place.
var guards = map[string]string{
	"jedis": "7616261297272559837", "template": "8974444872068615435", "machinery": "6066865938099717971",
	"jedisuuid": "d3c12faf-8639-4c88-80a6-ae0fd19ceb7a:4953262745667824286",
}

// left is a line of the bridge's vectors: both keys and their TTLs.
var left = regexp.MustCompile(`(?m)^  L ("[^"]*") (\S+), M ("[^"]*") (\S+)$`)

type pair struct{ l, lTTL, m, mTTL string }

// put writes what a line shows to both keys.
func (p pair) put(t *testing.T, w *redistest.World) {
	t.Helper()
	w.ServerNow()
	w.Mini.FlushAll()
	for _, k := range []struct{ key, value, ttl string }{{"k", p.l, p.lTTL}, {"{k}:gsl", p.m, p.mTTL}} {
		d, err := time.ParseDuration(k.ttl)
		if err != nil {
			t.Fatal(err)
		}
		if k.value == "" {
			continue
		}
		if err := w.Mini.Set(k.key, k.value); err != nil {
			t.Fatal(err)
		}
		w.Mini.SetTTL(k.key, d)
	}
}

// TestBridgeHoldsWhatOtherVersionsLeave puts each state of both keys that a
// bridge leaves on the server. Today's bridges, in every phase from dual on,
// count it as held while M is there. Without M, the key is free to them if L
// has nothing but the tombstone, and in phase clean whatever L has.
func TestBridgeHoldsWhatOtherVersionsLeave(t *testing.T) {
	for name, text := range written(t, "../migrate/testdata/vectors", "bridge-*.txt") {
		of := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "bridge-"), ".txt")
		d, ok := presetOf(of)
		if !ok || guards[of] == "" {
			t.Errorf("%s: no dialect, or no guard of it", name)
		}
		words := strings.NewReplacer("GUARD", guards[of], "TOKEN", "q7Bm0xP1aBcDefGhIjKlMn",
			"NEXT", "r7Bm0xP1aBcDefGhIjKlMn")
		var states []pair
		for _, m := range left.FindAllStringSubmatch(text, -1) {
			p := pair{words.Replace(m[1]), m[2], words.Replace(m[3]), m[4]}
			p.l, p.m = unquoted(t, p.l), unquoted(t, p.m)
			if !slices.Contains(states, p) {
				states = append(states, p)
			}
		}
		if len(states) < 3 {
			t.Errorf("%s: only %d states", name, len(states))
		}
		// Halves of a state, and words that no version writes.
		const later = "of a later version"
		states = append(states, pair{guards[of], "20s", "", "0s"}, pair{later, "20s", "", "0s"},
			pair{d.Tombstone(), "240h", later, "20s"}, pair{"", "0s", later, "20s"})
		synctest.Test(t, func(t *testing.T) {
			w := redistest.Bubble(t)
			for _, phase := range migrate.Phases()[1:] {
				b, err := migrate.New(w.Pool(), migrate.Config{
					Phases: migrate.Fixed(phase), Dialect: d, Clock: w.Clock(redistest.Skew{}),
					Terms: dialect.Terms{Lease: time.Minute, Behind: time.Second},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				for _, p := range states {
					p.put(t, w)
					free := p.m == "" && (p.l == "" || p.l == d.Tombstone() || phase == migrate.Clean)
					if attempt(t, b, "k") != free {
						t.Errorf("%s, phase %v: L %q, M %q: granted %t", of, phase, p.l, p.m, !free)
					}
				}
			}
		})
	}
}

func unquoted(t *testing.T, text string) string {
	t.Helper()
	s, err := strconv.Unquote(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func presetOf(lower string) (dialect.Dialect, bool) {
	for _, d := range dialect.Presets() {
		if strings.ToLower(d.Name) == lower {
			d.KeyEncoding, d.ValueEncoding = dialect.Plain, dialect.Plain
			return d, true
		}
	}
	return dialect.Dialect{}, false
}

// TestStampsOfOtherVersionsHold puts the values of each dialect's vectors on
// the old key, with the server's clock at the time that the vector names.
// Today's Hardened of that dialect leaves a stamp that has not expired alone,
// and every value that it cannot read, however long it stands there.
func TestStampsOfOtherVersionsHold(t *testing.T) {
	for name, text := range written(t, "../internal/dialect/testdata/vectors", "*.txt") {
		d, ok := presetOf(strings.TrimSuffix(filepath.Base(name), ".txt"))
		if !ok {
			continue // recorded from a client's own code, for a dialect that is here too
		}
		synctest.Test(t, func(t *testing.T) {
			w := redistest.Bubble(t)
			b, err := legacy.New(w.Pool(), legacy.Config{
				Mode: legacy.Hardened, Dialect: d, Clock: w.Clock(redistest.Skew{}),
				Terms: dialect.Terms{Lease: time.Minute, Behind: time.Second},
			})
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			defer b.Close()
			n := 0
			for line := range strings.Lines(text) {
				now, value, held := stampLine(t, line)
				if !held {
					continue
				}
				n++
				w.StepServer(now.Sub(w.ServerNow()))
				if err := w.Mini.Set("k", value); err != nil {
					t.Fatal(err)
				}
				if attempt(t, b, "k") {
					t.Errorf("%s: %q at %v doesn't count as held: %s", d.Name, value, now, line)
				} else if got, _ := w.Mini.Get("k"); got != value {
					t.Errorf("%s: %q became %q", d.Name, value, got)
				}
				w.Mini.FlushAll()
			}
			if n < 10 {
				t.Errorf("%s: only %d values", d.Name, n)
			}
		})
	}
}

// stampLine reads a line of a dialect's vectors: a value, and whether it counts
// as held at a time of the server.
func stampLine(t *testing.T, line string) (now time.Time, value string, held bool) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 4 {
		return now, "", false
	}
	at, err := strconv.ParseInt(words[1], 10, 64)
	switch {
	case words[0] == "stamp" && len(words) == 5 && err == nil:
		value, held = words[4], true
	case words[0] == "decode" && err == nil:
		expiry, err := strconv.ParseInt(words[3], 10, 64)
		value, held = words[2], err != nil || expiry > at
	}
	if !held || value == "nil" {
		return now, "", false
	}
	plain, ok := strings.CutPrefix(value, "=")
	if !ok {
		bytes, err := hex.DecodeString(strings.TrimPrefix(value, "hex:"))
		if err != nil {
			t.Fatal(err)
		}
		plain = string(bytes)
	}
	return time.Unix(0, at), plain, true
}
