// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// recordedUUID is the client's own uuid in the vectors of the later
// jedis-lock's rules.
const recordedUUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"

// uuidLines returns the lines of one kind, with own in the place of the
// recorded client's uuid.
func uuidLines(t *testing.T, kind, own string) [][]string {
	t.Helper()
	data, err := os.ReadFile("../internal/dialect/testdata/vectors/jedis-jar-uuid.txt")
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string) string {
		for _, form := range []func(string) string{strings.ToLower, strings.ToUpper} {
			from, to := hex.EncodeToString([]byte(form(recordedUUID))), hex.EncodeToString([]byte(form(own)))
			text = strings.ReplaceAll(text, from, to)
		}
		return text
	}
	var lines [][]string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(put(line)); len(f) > 0 && f[0] == kind {
			lines = append(lines, f[1:])
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no %s lines", kind)
	}
	return lines
}

// newUUIDReplay returns a verbatim JedisUUID client and its own uuid. The
// client keeps the uuid from key to key, and only what it writes shows it.
func newUUIDReplay(t *testing.T, at int64) (r *replay, own string) {
	w := redistest.New(t)
	r = &replay{t: t, world: w, tap: newTap(w)}
	b, err := legacy.New(r.tap.pool(t),
		legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.JedisUUID(),
			Clock: &pinned{time.UnixMilli(at)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r.b = b
	g, err := b.Contract().Try(bg, "scratch", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	value, err := w.Mini.Get("scratch")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	own, _, _ = strings.Cut(value, ":")
	r.tap.take()
	return r, own
}

func TestVerbatimJedisUUIDTreatsForeignValuesAsJava(t *testing.T) {
	for i, f := range uuidLines(t, "foreign", recordedUUID) {
		if millis(t, f[1]) < 0 {
			continue // the backend refuses such a clock; see TestVerbatimRefusesWhatItCannotStamp
		}
		t.Run(strings.Join(f, " "), func(t *testing.T) {
			r, own := newUUIDReplay(t, millis(t, f[1]))
			r.meets(uuidLines(t, "foreign", own)[i])
		})
	}
}

func TestVerbatimJedisUUIDStampsAsItsRulesSay(t *testing.T) {
	for i, f := range uuidLines(t, "stamp", recordedUUID) {
		now := millis(t, f[0])
		if now < 0 || f[1] == "default" {
			continue // another line has the default's value
		}
		lease := time.Duration(millis(t, f[1])) * time.Millisecond
		if _, refuses := dialect.JedisUUID().Stamp(time.UnixMilli(now), lease, recordedUUID); refuses != nil {
			continue
		}
		if lease == (1<<31-1)*time.Millisecond {
			// Java's sum overflows to a stamp in the past, a lock that is never
			// held; the backend does not copy that
			continue
		}
		r, own := newUUIDReplay(t, now)
		f = strings.Fields(strings.ReplaceAll(strings.Join(f, " "), recordedUUID, own))
		_, err := r.b.Contract().Try(bg, "k", lease)
		if value, _ := r.world.Mini.Get("k"); err != nil || value != f[2] {
			t.Errorf("line %d: %v: wrote %q, %v", i, f, value, err)
		}
	}
}

func TestVerbatimJedisUUIDReleasesAsItsRulesSay(t *testing.T) {
	for i, f := range uuidLines(t, "release", recordedUUID) {
		t.Run(strings.Join(f, " "), func(t *testing.T) {
			r, own := newUUIDReplay(t, millis(t, f[1]))
			f := uuidLines(t, "release", own)[i]
			if strings.Count(strings.Join(f, " "), "acquire ") > 1 &&
				strings.Contains(strings.Join(f, " "), "SETNX=1 acquired") {
				return // one Java object acquired twice; here a held grant and a new attempt are two objects
			}
			r.releases(f)
		})
	}
}
