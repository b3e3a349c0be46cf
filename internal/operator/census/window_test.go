// SPDX-License-Identifier: Apache-2.0

package census

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// Getsetlock clients write them; they are no writes of old clients.
func TestGuardsAndTombstonesAreReadInEachSpelling(t *testing.T) {
	for _, e := range spellings {
		d := spelling(e)
		f := newFilm(t, Config{Dialects: []dialect.Dialect{d}})
		for i, text := range []string{"4611686018427387999", d.Tombstone()} {
			value, err := d.EncodeValue(text)
			if err != nil {
				t.Fatal(err)
			}
			f.Do(i, anna, "SET", keyOf(t, d, "lock"), value)
		}
		if r := f.wants(Counts{Guards: 1, Tombstones: 1}); r.Evidence.LastWrite != nil {
			t.Errorf("%s: an old client wrote %+v", e, r.Evidence.LastWrite)
		}
	}
}

// A client of SET NX tries once on a key whose state is unknown.
func TestAttemptCountsBeforeItsOutcomeIsKnown(t *testing.T) {
	d := dialect.SetDel()
	f := newFilm(t, Config{Dialects: []dialect.Dialect{d}})
	f.Do(1000, anna, "SET", "lock", d.Constant, "NX", "EX", "30")
	f.Add(offset.Observed{At: at(5000), Kind: offset.ObservedGap, For: 5 * time.Second,
		Reason: "monitor proved"})
	e := f.result().Evidence
	if _, quiet := e.Quiet(); quiet != 4*time.Second || e.LastFailed == nil ||
		e.LastFailed.Key != "lock" {
		t.Errorf("quiet for %v, last failed %+v", quiet, e.LastFailed)
	}
}

// A record of all keys is played for the keys of one pattern.
func TestReplayKeepsToThePattern(t *testing.T) {
	for _, e := range spellings {
		d := spelling(e)
		f := newFilm(t, Config{Match: "lock*", Dialects: []dialect.Dialect{d}})
		for i, name := range []string{"lock:a", "stock", "lock:b"} {
			f.Look(10*i, keyOf(t, d, name), stampOf(t, d, at(10*i), time.Minute))
			f.Do(10*i+5, anna, "SETNX", keyOf(t, d, name+"2"), stampOf(t, d, at(10*i), time.Minute))
		}
		if keys := f.census.keys; len(keys) != 4 || len(f.result().Evidence.Keys) != 2 {
			t.Errorf("%s: %+v", e, keys)
		}
	}
}

func TestHostOfAnAddressHasNoPort(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:6379": "10.0.0.1", "[::1]:6379": "::1", "/tmp/redis.sock:0": "/tmp/redis.sock",
		"lua": "lua", "": "", "::1": "::1", "a:": "a",
	} {
		if got := hostOf(addr); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
}
