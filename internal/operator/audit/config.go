// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/lock"
)

// Config says what to watch and what is known already. The zero value watches
// every key that carries a stamp, through every source except MONITOR, until
// the context of [Watch] ends.
type Config struct {
	// The embedded census.Config says what is counted and what is known of the
	// fleet.
	census.Config

	// For is how long the watch lasts; 0: until the context ends.
	For time.Duration
	// Looks is the greatest number of keys looked at per second. Defaults to
	// 1000.
	Looks int
	// Monitor turns bursts of MONITOR on. Only On has to be set; the zero value
	// of every other field is right.
	Monitor MonitorConfig
	// NoStats leaves out how often commands were called.
	NoStats bool
	// Timeout is the longest wait for each reply. Defaults to 2 s.
	Timeout time.Duration
	// Clock measures the observer's elapsed time and paces its work. Defaults
	// to lock.Machine.
	Clock lock.Clock

	// Record receives every event as a line that Replay reads. A write that
	// fails ends the record, and its error is returned alongside the result;
	// the watch goes on.
	Record io.Writer
	// Hash, if not empty, is the key with which names of keys, and values, are
	// hashed in the record: HMAC-SHA256, cut to 128 bits. Equal texts get equal
	// hashes, so a replay counts the same.
	//
	// Stamps, guards and tombstones stay readable, since clock offsets are
	// computed from them: they reveal when a client locked, and nothing else.
	// The uuid in a JedisUUID value is replaced by another. The names of keys
	// are lost (Match finds none of them), and so are values that no dialect
	// reads. Not hidden are the addresses, names and libraries of clients, and
	// when and how often they acted.
	Hash []byte

	// Seen is called about every SeenEvery (default 1 s) with the result so
	// far, for a live view and for gates. Seen owns the result it receives. It
	// must return quickly: while it runs, no event is counted.
	Seen      func(*Result)
	SeenEvery time.Duration
}

// MonitorConfig bounds what MONITOR may cost the server.
type MonitorConfig struct {
	On bool
	// Burst is the longest time that MONITOR stays on; Every is the time from
	// the start of one burst to the start of the next. They default to 5 s and
	// 30 s. If Every is at most Burst, MONITOR stays on, which proof of a
	// window needs. A burst that stays on ends only if the server is slow for
	// seconds, or if the connection is lost. The next one begins after a
	// second, and what was proved so far is lost.
	Burst, Every time.Duration
	// Bytes bounds what is read in one burst, unless MONITOR stays on. Defaults
	// to 64 MiB.
	Bytes int64
	// A burst is stopped when the median round trip during it exceeds Slower
	// times the median before it, but never below Least. Slower defaults to 4;
	// Least defaults to 5 ms, or to 50 ms if MONITOR stays on.
	Slower float64
	Least  time.Duration
}

// stays reports whether MONITOR stays on instead of running in bursts.
func (c MonitorConfig) stays() bool { return c.Every <= c.Burst }

// scope returns the predicate that says which keys are watched. Lines of
// MONITOR, looks and slices of SCAN are all judged by it.
func (c Config) scope() scope.Scope {
	return scope.Matching(c.Match).In(c.DB)
}

// filled returns c with its defaults. It refuses impossible values with an
// error that names the field.
func (c Config) filled() (Config, error) {
	var err error
	if c.Config, err = c.Config.Filled(); err != nil {
		return c, err
	}
	c.Looks = cmp.Or(c.Looks, 1000)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.SeenEvery = cmp.Or(c.SeenEvery, time.Second)
	c.Monitor.Burst = cmp.Or(c.Monitor.Burst, 5*time.Second)
	c.Monitor.Every = cmp.Or(c.Monitor.Every, 30*time.Second)
	c.Monitor.Bytes = cmp.Or(c.Monitor.Bytes, 64<<20)
	c.Monitor.Slower = cmp.Or(c.Monitor.Slower, 4)
	if c.Monitor.stays() {
		c.Monitor.Least = cmp.Or(c.Monitor.Least, 50*time.Millisecond)
	}
	c.Monitor.Least = cmp.Or(c.Monitor.Least, 5*time.Millisecond)
	if c.Clock == nil {
		c.Clock = lock.Machine
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"For", c.For}, {"Timeout", c.Timeout}, {"Monitor.Burst", c.Monitor.Burst},
		{"Monitor.Every", c.Monitor.Every}} {
		if f.value < 0 {
			return c, fmt.Errorf("audit: %s %v: must be at least 0", f.name, f.value)
		}
	}
	return c, nil
}
