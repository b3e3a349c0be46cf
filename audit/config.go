package audit

import (
	"fmt"
	"io"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/lock"
)

// Config says what to watch and what is known already. The zero value watches every key that carries a
// stamp, by all sources but MONITOR, until its context ends.
type Config struct {
	// Config says what is counted and what is known already.
	census.Config

	// For is how long to watch; 0 watches until the context ends.
	For time.Duration
	// Looks is how many keys are looked at a second, at most. Defaults to 1000; negative does not look.
	Looks int
	// Monitor turns bursts of MONITOR on. Its zero value, but for On, is right.
	Monitor MonitorConfig
	// NoTracking, NoStats and NoClients leave a source out.
	NoTracking, NoStats, NoClients bool
	// Timeout bounds each reply. Defaults to 2 s.
	Timeout time.Duration
	// Clock measures the observer's elapsed time and its pace. Defaults to lock.Machine.
	Clock lock.Clock

	// Record receives every event as a line that Replay reads. A write that fails ends the record and is
	// returned beside the result; the watch goes on.
	Record io.Writer
	// Probed, if not nil, is what a probe found before; the record begins with it.
	Probed *ProbeResult
	// Hash, if not empty, is the key under which names of keys and values are hashed in the record: HMAC-SHA256
	// cut to 128 bits, equal texts to equal ones, so that a replay counts the same. Stamps, guards and
	// tombstones stay as they are, since offsets are worked out of them: they say when somebody locked,
	// nothing else; of a JedisUUID value the uuid becomes another. Lost is what keys are called (Match finds none of
	// them) and what an unreadable value was. Not hidden are addresses, names and libraries of clients,
	// how often and when.
	Hash []byte

	// Seen is called about every SeenEvery (default 1 s) with what is known so far, for a live view and
	// for gates; what it is given is its own. It must not block for long: nothing is read meanwhile.
	Seen      func(*Result)
	SeenEvery time.Duration
}

// MonitorConfig bounds what MONITOR may cost.
type MonitorConfig struct {
	On bool
	// Burst is how long it is on at most, Every how often it is turned on. Default to 5 s and 30 s. Every not
	// longer than Burst keeps it on, which a window by MONITOR asks for. Such a
	// burst ends only where the server is slow for seconds, and begins again after
	// a second; what it had proved then is lost.
	Burst, Every time.Duration
	// Bytes bounds what is read in one burst that is not to stay on. Defaults to
	// 64 MiB.
	Bytes int64
	// Slower is how many times the median PING of before a burst may become in it, and at least Least, before it
	// is stopped. Default to 4 and 5 ms, and Least to 50 ms where it is to stay on.
	Slower float64
	Least  time.Duration
}

// stays reports that MONITOR is to stay on.
func (c MonitorConfig) stays() bool { return c.Every <= c.Burst }

// scope is what the watch is about: the one predicate that lines of MONITOR,
// looks and slices of SCAN are asked by.
func (c Config) scope() scope.Scope {
	return scope.Matching(c.Match).Except(c.Except...).In(c.DB).With(c.Keys...)
}

// filled puts the defaults in and refuses what makes no sense, with an error that names the field.
func (c Config) filled() (Config, error) {
	var err error
	if c.Config, err = c.Config.Filled(); err != nil {
		return c, err
	}
	fill(&c.Looks, 1000)
	fill(&c.Timeout, 2*time.Second)
	fill(&c.SeenEvery, time.Second)
	fill(&c.Monitor.Burst, 5*time.Second)
	fill(&c.Monitor.Every, 30*time.Second)
	fill(&c.Monitor.Bytes, 64<<20)
	fill(&c.Monitor.Slower, 4)
	if c.Monitor.stays() {
		fill(&c.Monitor.Least, 50*time.Millisecond)
	}
	fill(&c.Monitor.Least, 5*time.Millisecond)
	if c.Clock == nil {
		c.Clock = lock.Machine
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"For", c.For}, {"Timeout", c.Timeout}, {"Monitor.Burst", c.Monitor.Burst}, {"Monitor.Every", c.Monitor.Every}} {
		if f.value < 0 {
			return c, fmt.Errorf("audit: %s %v: must be at least 0", f.name, f.value)
		}
	}
	return c, nil
}

// fill replaces a zero.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
