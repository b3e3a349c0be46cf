// SPDX-License-Identifier: Apache-2.0

package census

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// A hold that its own client did not end is no job. The leftover of a killed
// client may be deleted by doctor or by a person, also from the same host, and
// a client that takes a connection from a pool for each command may meet it.
func TestLeftoverThatAnotherClientEndsIsNoJob(t *testing.T) {
	const doctor = "10.0.0.1:59999" // on anna's host
	for name, c := range map[string]struct {
		end func(f *film)
		job time.Duration
	}{
		"own DEL":    {func(f *film) { f.Do(5000, anna, "DEL", "stock") }, 5 * time.Second},
		"pool's DEL": {func(f *film) { f.Do(5000, doctor, "DEL", "stock") }, 5 * time.Second},
		"own DEL, too late": {func(f *film) {
			takeover(f)
			f.Do(13_000, anna, "DEL", "stock")
		}, 13 * time.Second},
		"another host's DEL": {func(f *film) { f.Do(5000, bert, "DEL", "stock") }, 0},
		"script":             {func(f *film) { script(f, doctor) }, 0},
		"late pool's DEL": {func(f *film) {
			takeover(f)
			f.Do(11_100, bert, "DEL", "stock")
			f.Do(13_000, doctor, "DEL", "stock")
		}, 98 * time.Millisecond},
	} {
		f := newFilm(t, Config{Lease: 10 * time.Second, Gap: time.Second})
		f.Look(-10, "stock", "")
		f.Do(0, anna, "SETNX", "stock", stamp(0))
		c.end(f)
		if h := f.result().Evidence.LongestHold; h.Value != c.job {
			t.Errorf("%s: a job of %v, want %v", name, h.Value, c.job)
		}
	}
}

func takeover(f *film) {
	f.Do(11_000, bert, "SETNX", "stock", stamp(11_000-50_000))
	f.Do(11_001, bert, "GET", "stock")
	f.Do(11_002, bert, "GETSET", "stock", stamp(11_000-50_000))
}

func script(f *film, addr string) {
	f.Do(5000, addr, "EVALSHA", "abc", "1", "stock")
	f.Add(offset.Observed{At: at(5000), Kind: offset.ObservedCommand, Addr: "lua",
		Args: []string{"DEL", "stock"}})
}

// A read counts too if the census learns the value only afterwards.
func TestReadOfAnUnknownValueCountsAsFoundLive(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute})
	f.Do(0, bert, "SETNX", "lock:a", stamp(0))
	f.Do(1, bert, "GET", "lock:a")
	f.Look(10, "lock:a", stamp(-500))
	if e := f.result().Evidence; len(e.Keys) != 1 ||
		e.Keys[0].FoundLive != (Found{
			Value: stamp(-500), Times: 1, Last: at(1), Addr: bert, Still: true}) {
		t.Errorf("%+v", e.Keys)
	}
	// A pool may send the GET on another connection of the same host; a client
	// on another host does not count.
	f.Do(11, "10.0.0.2:2001", "GET", "lock:a")
	f.Do(12, cleo, "GET", "lock:a")
	if e := f.result().Evidence; e.Keys[0].FoundLive != (Found{
		Value: stamp(-500), Times: 2, Last: at(11), Addr: "10.0.0.2:2001", Still: true}) {
		t.Errorf("%+v", e.Keys)
	}
	f.Do(20, bert, "SETNX", "lock:b", stamp(20))
	f.Do(21, bert, "GET", "lock:b")
	f.Do(22, cleo, "DEL", "lock:b")
	f.Look(30, "lock:b", stamp(25))
	if e := f.result().Evidence; e.Keys[1].FoundLive.Times != 0 {
		t.Errorf("another value was read: %+v", e.Keys[1].FoundLive)
	}
}
