// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"errors"
	"os"
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
)

// jarLines returns the vectors of one kind that were recorded from jedis-lock
// 1.0.0.
func jarLines(t *testing.T, kind string) [][]string {
	t.Helper()
	data, err := os.ReadFile("../internal/dialect/testdata/vectors/jedis-jar.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == kind {
			lines = append(lines, f[1:])
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no %s lines", kind)
	}
	return lines
}

func millis(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// outcome returns an attempt's end in the words of the vectors.
func outcome(err error) string {
	var thrown *legacy.ThrownError
	var wrong *legacy.TypeError
	switch {
	case err == nil:
		return "acquired"
	case errors.As(err, &thrown):
		return "exception:java.lang.NumberFormatException"
	case errors.As(err, &wrong):
		return "exception:redis.clients.jedis.exceptions.JedisDataException"
	case errors.Is(err, lock.ErrHeld):
		return "refused"
	}
	return err.Error()
}

// replay is one backend whose commands and replies are compared with a line of
// the vectors.
type replay struct {
	t     *testing.T
	world *redistest.World
	tap   *tap
	b     *legacy.Backend
}

func newReplay(t *testing.T, at int64) *replay {
	w := redistest.New(t)
	r := &replay{t: t, world: w, tap: newTap(w)}
	b, err := legacy.New(r.tap.pool(t),
		legacy.Config{Mode: legacy.Verbatim, Clock: &pinned{time.UnixMilli(at)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r.b = b
	return r
}

// other does what a word of the vectors says that another client does.
func (r *replay) other(word string) {
	switch state, set := strings.CutPrefix(word, "!SET="); {
	case set:
		setState(r.t, r.world, "k", state)
	case word == "!DEL":
		setState(r.t, r.world, "k", "missing")
	case word == "!LIST":
		setState(r.t, r.world, "k", "list")
	default:
		r.t.Fatalf("unknown word %q", word)
	}
}

// meets makes one attempt at a foreign value, as a line of the vectors says.
func (r *replay) meets(line []string) {
	r.t.Helper()
	setState(r.t, r.world, "k", line[0])
	want, words := line[2], line[3:]
	last := len(words) - 1
	var wire []string
	for i, word := range words[:last] {
		if strings.HasPrefix(word, "!") {
			name, _, _ := strings.Cut(words[i+1], "=")
			r.tap.act(name, func() { r.other(word) })
		} else {
			wire = append(wire, word)
		}
	}
	_, err := r.b.Contract().Try(bg, "k", time.Minute)
	if got := outcome(err); got != want {
		r.t.Errorf("%s, Java: %s (%v)", got, want, err)
	}
	if got := strings.Join(r.tap.take(), " "); got != strings.Join(wire, " ") {
		r.t.Errorf("on the wire\n%s, Java:\n%s", got, strings.Join(wire, " "))
	}
	if got := "left=" + state(r.world, "k"); got != words[last] {
		r.t.Errorf("%s, Java %s", got, words[last])
	}
}

// releases takes and releases as a line of the vectors says.
func (r *replay) releases(line []string) {
	r.t.Helper()
	setState(r.t, r.world, "k", line[0])
	var held backend.Grant
	var got []string
	words := line[2:]
	for i, word := range words {
		switch {
		case word == "acquire":
			g, err := r.b.Contract().Try(bg, "k", time.Minute)
			if err == nil {
				held = g
			}
			got = append(append(append(got, word), r.tap.take()...), outcome(err))
		case word == "release":
			if held != nil { // there is nothing to release without a grant
				_ = held.Release(bg)
			}
			got = append(append(got, word), r.tap.take()...)
		case strings.HasPrefix(word, "!"):
			r.other(word)
			got = append(got, word)
		case i == len(words)-1:
			got = append(got, "left="+state(r.world, "k"))
		}
	}
	if strings.Join(got, " ") != strings.Join(words, " ") {
		r.t.Errorf("the backend\n%s, Java:\n%s", strings.Join(got, " "), strings.Join(words, " "))
	}
}

func TestVerbatimJedisTreatsForeignValuesAsTheJarDoes(t *testing.T) {
	for _, f := range jarLines(t, "foreign") {
		now := millis(t, f[1])
		if now < 0 {
			continue // the backend refuses such a clock; see TestVerbatimRefusesWhatItCannotStamp
		}
		t.Run(strings.Join(f, " "), func(t *testing.T) { newReplay(t, now).meets(f) })
	}
}

func TestVerbatimJedisReleasesAsTheJarDoes(t *testing.T) {
	for _, f := range jarLines(t, "release") {
		t.Run(strings.Join(f, " "), func(t *testing.T) { newReplay(t, millis(t, f[1])).releases(f) })
	}
}

func TestVerbatimJedisStampsAsTheJarDoes(t *testing.T) {
	for _, f := range jarLines(t, "stamp") {
		now := millis(t, f[0])
		r := newReplay(t, now)
		lease := r.b.Contract().(backend.Advisor).Advise(backend.Settings{}).TTL
		if f[1] != "default" {
			lease = time.Duration(millis(t, f[1])) * time.Millisecond
		}
		_, err := r.b.Contract().Try(bg, "k", lease)
		if _, refuses := dialect.Jedis().Stamp(time.UnixMilli(now), lease, ""); refuses != nil {
			if err == nil {
				t.Errorf("%v: accepted", f)
			}
			continue
		}
		if value, _ := r.world.Mini.Get("k"); err != nil || value != f[2] {
			t.Errorf("%v: wrote %q, %v", f, value, err)
		}
	}
}

func TestVerbatimJedisMakesAsManyAttemptsAsTheJar(t *testing.T) {
	for _, f := range jarLines(t, "attempts") {
		wait := 10 * time.Second
		if f[0] != "default" {
			wait = time.Duration(millis(t, f[0])) * time.Millisecond
		}
		if wait < 0 {
			continue // the jar then sends nothing at all; the backend tries once
		}
		if wait == 0 {
			wait = -1 // the jar's 0 is a negative Wait: a single attempt
		}
		t.Run(f[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := redistest.Bubble(t)
				clock := w.Clock(redistest.Skew{})
				p := newTap(w)
				b, err := legacy.New(p.pool(t), legacy.Config{Mode: legacy.Verbatim, Clock: clock})
				if err != nil {
					t.Fatal(err)
				}
				client, err := lock.New(b, lock.Config{Wait: wait, Clock: clock})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close(context.Background())
				w.Mini.Set("k", "9999999999999")
				from := w.Now()
				if _, err := client.Acquire(bg, "k"); !errors.Is(err, lock.ErrHeld) {
					t.Fatal(err)
				}
				if n := p.count("SETNX"); int64(n) != millis(t, f[2]) {
					t.Errorf("%d attempts, the jar %s", n, f[2])
				}
				slept := time.Duration(millis(t, f[3])) * 100 * time.Millisecond
				if took := w.Now().Sub(from); wait > 0 && took != slept {
					t.Errorf("took %v, the jar sleeps %v", took, slept)
				}
			})
		})
	}
}

func TestVerbatimRefusesWhatItCannotStamp(t *testing.T) {
	for _, c := range []struct {
		now   time.Time
		lease time.Duration
	}{
		{time.UnixMilli(-1000), time.Minute},
		{time.Unix(1e9, 0), 0},
		{time.Unix(1e9, 0), -time.Second},
		{time.Unix(1e9, 0), time.Microsecond},
		{time.Unix(1e9, 0), 1500 * time.Microsecond},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Minute},
		{time.Unix(1e9, 0), 1<<63 - 1},
	} {
		r := newReplay(t, c.now.UnixMilli())
		if _, err := r.b.Contract().Try(bg, "k", c.lease); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("%v at %v: %v", c.lease, c.now, err)
		}
		if words := r.tap.take(); len(words) > 0 {
			t.Errorf("%v at %v: sent %v", c.lease, c.now, words)
		}
		if err := r.b.Contract().(backend.Advisor).Fits(c.lease, 0, 0); err == nil {
			t.Errorf("%v at %v fits", c.lease, c.now)
		}
	}
}
