package demo

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// client plays a member: each step sends one command and says when the next one is due.
type client struct {
	Member
	fleet *Fleet
	conn  redis.Conn
	at    time.Duration // of the next step, since the opening
	next  func() error  // what it is; nil begins an attempt
	stamp string        // what this attempt writes
	seen  dialect.Reply // what its GET returned
}

// never is when a process that is gone acts next.
const never = 1 << 62 * time.Nanosecond

// roundTrip is between two commands of one attempt.
var roundTrip = span(250*time.Microsecond, 900*time.Microsecond)

func (c *client) step() error {
	if c.next == nil {
		c.next = c.setnx
	}
	return c.next()
}

// clock is what this process takes for the time.
func (c *client) clock() time.Time { return c.fleet.Now().Add(c.offset(c.fleet.now)) }

// then goes on with a step after a while.
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
	// The pages let the poll to the reader; a tenth of a second is what most took.
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

// work holds the lock for a job's length, or for ever if the process dies in it.
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
