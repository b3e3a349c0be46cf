// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// client plays a member. Each step sends one command and sets when the next one
// is due.
type client struct {
	Member
	fleet *Fleet
	conn  redis.Conn
	at    time.Duration // time of the next step, since the opening
	next  func() error  // next step; nil begins an attempt
	stamp string        // stamp that this attempt writes
	seen  dialect.Reply // reply of this attempt's GET
}

// never is the next step of a process that died.
const never = 1 << 62 * time.Nanosecond

// roundTrip is the time between two commands of an attempt.
var roundTrip = span(250*time.Microsecond, 900*time.Microsecond)

func (c *client) step() error {
	if c.next == nil {
		c.next = c.setnx
	}
	return c.next()
}

// clock returns the time by this process's clock.
func (c *client) clock() time.Time { return c.fleet.Now().Add(c.offset(c.fleet.now)) }

// then continues with a step after that time.
func (c *client) then(after time.Duration, next func() error) error {
	c.at, c.next = c.fleet.now+after, next
	return nil
}

func (c *client) soon(next func() error) error { return c.then(c.fleet.between(roundTrip), next) }

func (c *client) setnx() error {
	text, err := c.Dialect.Stamp(c.clock(), Lease, "")
	if err != nil {
		return err
	}
	c.stamp = text
	won, err := redis.Int(c.conn.Do("SETNX", c.Key, text))
	switch {
	case err != nil:
		return err
	case won == 1:
		return c.work()
	}
	return c.soon(c.get)
}

func (c *client) get() error {
	value, err := redis.String(c.conn.Do("GET", c.Key))
	c.seen = dialect.Text(value)
	if errors.Is(err, redis.ErrNil) {
		c.seen, err = dialect.Nil(), nil
	}
	if err != nil {
		return err
	}
	if c.Dialect.LegacyNext(c.seen, "", c.clock()) == dialect.StepGetset {
		return c.soon(c.getset)
	}
	// Published listings leave the poll to the reader; most used a tenth of a
	// second.
	return c.then(max(c.Dialect.Poll, 100*time.Millisecond), nil)
}

func (c *client) getset() error {
	value, err := redis.String(c.conn.Do("GETSET", c.Key, c.stamp))
	old := dialect.Text(value)
	if errors.Is(err, redis.ErrNil) {
		old, err = dialect.Nil(), nil
	}
	if err != nil {
		return err
	}
	if c.Dialect.LegacyWins(old, c.seen, c.clock()) == dialect.Won {
		return c.work()
	}
	return c.then(max(c.Dialect.Poll, 100*time.Millisecond), nil)
}

// work holds the lock for the length of a job, or for ever if the process dies
// during it.
func (c *client) work() error {
	if c.DiesAt > 0 && c.fleet.now >= c.DiesAt {
		return c.then(never-c.fleet.now, nil)
	}
	return c.then(c.fleet.between(c.Job), c.release)
}

func (c *client) release() error {
	rest := c.fleet.between(c.Rest)
	if c.Dialect.LegacyReleases(c.stamp, dialect.Nil(), c.clock()) != dialect.ReleaseDeletes {
		return c.then(rest, nil)
	}
	if _, err := c.conn.Do("DEL", c.Key); err != nil {
		return err
	}
	return c.then(rest, nil)
}
