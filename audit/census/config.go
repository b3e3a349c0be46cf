package census

import (
	"cmp"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// Config says what to count and what is known already. The zero value
// counts every key that carries a stamp.
type Config struct {
	// Match is a pattern as SCAN takes it; keys that do not match are left out. A key that a serializer of
	// Spring's wrapped is matched by the name inside. Defaults to "*".
	Match string
	// Except names namespaces whose keys are left out although they match: those that
	// begin with one of these texts.
	Except []string
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
	// LeaseChecked claims that Lease was looked up once more where it is
	// configured, although what clients write looks like a smaller one.
	LeaseChecked bool
	// OwnConnections claims that each client has a connection of its own and waits
	// for the reply to each command. Then it read its clock after the command
	// before, and after the sleep between two polls, which narrows [Offset.Steady].
	// A watch can refute the claim and never prove it: MONITOR shows no replies.
	// It changes nothing that a gate goes by.
	OwnConnections bool
	// Rate is the greatest rate error of a client's clock against the server's, in parts per million.
	// Defaults to 500, which is what ntpd slews by at most.
	Rate float64
	// PollEvery is how often one key is looked at, at most. Defaults to 100 ms.
	PollEvery time.Duration
	// MaxKeys bounds the keys that are looked at, and MaxWriters the writers remembered. Default to 1000 each.
	MaxKeys, MaxWriters int
}

// Filled puts the defaults in and refuses what makes no sense, with an error that names the field.
func (c Config) Filled() (Config, error) {
	c.Match = cmp.Or(c.Match, "*")
	c.PollEvery = cmp.Or(c.PollEvery, 100*time.Millisecond)
	c.MaxKeys = cmp.Or(c.MaxKeys, 1000)
	c.MaxWriters = cmp.Or(c.MaxWriters, 1000)
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease}, {"Greatest", c.Greatest}, {"Job", claim(c.Job)}, {"Spread", claim(c.Spread)}, {"Gap", claim(c.Gap)},
		{"Behind", claim(c.Behind)}, {"Ahead", claim(c.Ahead)}, {"Idle", c.Idle}, {"PollEvery", c.PollEvery},
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
	if _, err := offset.NewFleet(c.Rate); err != nil {
		return c, fmt.Errorf("audit: Rate %v: must be more than 0 and at most 500000 parts per million", c.Rate)
	}
	return c, nil
}

// claim is what a claim says; an absent one says nothing, which is 0.
func claim(field time.Duration) time.Duration {
	d, _ := dialect.Claimed(field)
	return d
}
