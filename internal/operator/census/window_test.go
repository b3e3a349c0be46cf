// SPDX-License-Identifier: Apache-2.0

package census

import (
	"strings"
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

// SWAPDB, MOVE, COPY and FLUSHDB may change keys of another database than the
// one in which they are sent.
func TestCommandsAcrossDatabasesAreFollowed(t *testing.T) {
	for _, c := range []struct {
		db            int
		words         string
		known, exists bool // state of "lock" in database 3 afterwards
	}{
		{3, "SETNX lock 1", true, true}, {0, "DEL lock", true, true}, {3, "DEL lock", true, false},
		{3, "DEL a lock", true, false},
		{0, "FLUSHDB", true, true}, {3, "FLUSHDB", true, false}, {0, "FLUSHALL", true, false},
		{0, "SWAPDB 0 1", true, true}, {0, "SWAPDB 0 3", false, true}, {5, "SWAPDB 3 1", false, true},
		{0, "MOVE lock 3", false, true}, {3, "MOVE lock 0", false, true}, {0, "MOVE lock 1", true, true},
		{3, "MOVE other 0", true, true},
		{0, "COPY other lock DB 3 REPLACE", false, true}, {0, "COPY other lock", true, true},
		{3, "COPY other lock", false, true},
	} {
		f := newFilm(t, Config{DB: 3})
		f.Look(-1, "lock", "")
		f.Add(offset.Observed{At: at(0), Kind: offset.ObservedCommand, DB: 3, Addr: "a:1",
			Args: []string{"SETNX", "lock", stamp(0)}})
		f.Add(offset.Observed{At: at(1), Kind: offset.ObservedCommand, DB: c.db, Addr: "a:1",
			Args: strings.Fields(c.words)})
		if k := f.census.keys[keyID{3, "lock"}]; k.known != c.known || k.exists != c.exists {
			t.Errorf("database %d, %s: known %v, exists %v", c.db, c.words, k.known, k.exists)
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
