package audit

import (
	"fmt"
	"io"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Config says what to watch and what is known already. The zero value watches every key that carries a
// stamp, by all sources but MONITOR, until its context ends.
type Config struct {
	// Match is a pattern as SCAN takes it; keys that do not match are left out. A key that a serializer of
	// Spring's wrapped is matched by the name inside. Defaults to "*".
	Match string
	// Keys are looked at beside those that a scan finds, whatever Match says.
	Keys []string
	// DB is the number of the database that the pool selects. MONITOR shows
	// commands of all databases, and a watch counts those of this one.
	// Defaults to what the server says of the pool's connections.
	DB int

	// Dialects are those that the fleet speaks, as far as it is known. Without any, presets are
	// tried, what fits is named, and offsets are as wide as the presets differ.
	Dialects []dialect.Dialect
	// Lease is what all clients add to their clocks, or the least of it where
	// Greatest is more. Defaults to a guess for each writer, said to be one.
	Lease time.Duration
	// Greatest is the greatest lease of any old client. Defaults to Lease.
	Greatest time.Duration
	// Claims stand in where nothing is measured, and are refuted where what is measured is more: the
	// longest job, the spread of the clocks, the longest time from a clock reading to its GETSET.
	// A field of 0 claims nothing; [dialect.Zero] claims zero.
	Job, Spread, Gap time.Duration
	// Behind and Ahead claim how far the slowest old client's clock is behind the
	// server's, and the fastest one's ahead of it, in the form of Spread.
	Behind, Ahead time.Duration
	// Idle is the longest pause between two attempts of one old client. Behind and
	// Ahead count as measured after a window of that length without a hole, and no
	// less than the greatest lease. A longer pause that was seen on a key counts
	// instead. Without Idle nothing is measured: a job that runs at night was not
	// seen by day.
	Idle time.Duration
	// OwnConnections claims that no two threads share a connection at a time: then a SETNX after a lost
	// one comes a whole poll later, which narrows offsets to a round trip. Without it they are as wide as a poll.
	OwnConnections bool
	// Rate is the greatest rate error of a client's clock against the server's, in parts per million.
	// Defaults to skew.DefaultRate.
	Rate float64

	// For is how long to watch; 0 watches until the context ends.
	For time.Duration
	// Looks is how many keys are looked at a second, at most. Defaults to 1000; negative does not look.
	Looks int
	// PollEvery is how often one key is looked at, at most. Defaults to 100 ms.
	PollEvery time.Duration
	// MaxKeys bounds the keys that are looked at, and MaxWriters the writers remembered. Default to 1000 each.
	MaxKeys, MaxWriters int
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
	// longer than Burst keeps it on, which a gate for fleets of other programs' SETNX asks for.
	Burst, Every time.Duration
	// Bytes bounds what is read in one burst. Defaults to 64 MiB.
	Bytes int64
	// Slower is how many times the median PING of before a burst may become in it, and at least Least, before it
	// is stopped. Default to 4 and 5 ms.
	Slower float64
	Least  time.Duration
}

// scope is what the watch is about: the one predicate that lines of MONITOR,
// looks and slices of SCAN are asked by.
func (c Config) scope() scope.Scope { return scope.Matching(c.Match).In(c.DB).With(c.Keys...) }

// filled puts the defaults in and refuses what makes no sense, with an error that names the field.
func (c Config) filled() (Config, error) {
	if c.Match == "" {
		c.Match = "*"
	}
	fill(&c.Looks, 1000)
	fill(&c.PollEvery, 100*time.Millisecond)
	fill(&c.MaxKeys, 1000)
	fill(&c.MaxWriters, 1000)
	fill(&c.Timeout, 2*time.Second)
	fill(&c.SeenEvery, time.Second)
	fill(&c.Monitor.Burst, 5*time.Second)
	fill(&c.Monitor.Every, 30*time.Second)
	fill(&c.Monitor.Bytes, 64<<20)
	fill(&c.Monitor.Slower, 4)
	fill(&c.Monitor.Least, 5*time.Millisecond)
	if c.Clock == nil {
		c.Clock = lock.Machine
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease}, {"Greatest", c.Greatest}, {"Job", bound(c.Job)}, {"Spread", bound(c.Spread)}, {"Gap", bound(c.Gap)},
		{"Behind", bound(c.Behind)}, {"Ahead", bound(c.Ahead)}, {"Idle", c.Idle}, {"For", c.For}, {"PollEvery", c.PollEvery},
		{"Timeout", c.Timeout}, {"Monitor.Burst", c.Monitor.Burst}, {"Monitor.Every", c.Monitor.Every},
	} {
		if f.value < 0 {
			return c, fmt.Errorf("audit: %s %v: must be at least 0", f.name, f.value)
		}
	}
	if longest := max(c.Lease, c.Greatest); longest > dialect.LongestStamp {
		return c, fmt.Errorf("audit: Lease %v, Greatest %v: must be at most %v", c.Lease, c.Greatest, dialect.LongestStamp)
	}
	if c.Greatest > 0 && c.Greatest < c.Lease {
		return c, fmt.Errorf("audit: Greatest %v: must be at least Lease %v", c.Greatest, c.Lease)
	}
	if c.MaxKeys < 0 || c.MaxWriters < 0 || c.DB < 0 {
		return c, fmt.Errorf("audit: MaxKeys %d, MaxWriters %d, DB %d: must be at least 0", c.MaxKeys, c.MaxWriters, c.DB)
	}
	for _, d := range c.Dialects {
		if err := d.Validate(); err != nil {
			return c, fmt.Errorf("audit: Dialects: %w", err)
		}
	}
	return c, nil
}

// bound is what a claim says; an absent one says nothing, which is 0.
func bound(claim time.Duration) time.Duration {
	d, _ := dialect.Claimed(claim)
	return d
}

// fill replaces a zero.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
