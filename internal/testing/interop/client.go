// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Kind says which rules a lock object follows.
type Kind string

// The kinds.
const (
	Jar   Kind = "jar"   // com.github.jedis.lock.JedisLock of jedis-lock 1.0.0, as published
	Token Kind = "token" // SET NX PX and a script that compares, as in Java listings
	Dual  Kind = "dual"  // the lock of docs/guide/java-dual.md; it is given its namespace
	None  Kind = "none"  // always grants: a test of exclusion must fail with it
)

// Default, as a wait or a lease, selects the Java side's default: 10 s and 60
// s.
const Default = time.Duration(-1 << 63)

// Client is one Java client: a connection, a thread, and one lock object at a
// time. Its calls are executed in the order in which they are made. Only calls
// such as [Client.Next] are answered while others are under way.
type Client struct {
	Name string

	jvm  *JVM
	wait time.Duration // the present lock object's wait, which bounds how long an acquire may take
}

// Client connects a new client to the server at addr (host:port). The caller
// chooses names, which must differ within a JVM.
func (j *JVM) Client(ctx context.Context, name, addr string) (*Client, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	if _, err := j.order(ctx, 0, "open", name, host, port); err != nil {
		return nil, err
	}
	return &Client{Name: name, jvm: j}, nil
}

// Lock gives the client a new lock object in place of the last; its local flag
// begins as not held. Wait and lease are cut to whole milliseconds and may be
// [Default] (a jar's lease only if its wait is too). A [Dual] lock is given its
// namespace.
func (c *Client) Lock(ctx context.Context, kind Kind, key string, wait, lease time.Duration,
	namespace ...string) error {
	order := append([]string{"lock", c.Name, string(kind), key, millis(wait), millis(lease)}, namespace...)
	if _, err := c.jvm.order(ctx, 0, order...); err != nil {
		return err
	}
	c.wait = wait
	if wait == Default {
		c.wait = 10 * time.Second
	}
	return nil
}

func millis(d time.Duration) string {
	if d == Default {
		return "default"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// Acquired is the result of an acquire.
type Acquired struct {
	Won    bool
	Sleeps int // how often the Java thread slept meanwhile, as the JVM counts it
}

// Acquire calls the lock's acquire and waits for it. If Java throws, the error
// is an [*Exception].
func (c *Client) Acquire(ctx context.Context) (Acquired, error) {
	p, err := c.BeginAcquire()
	if err != nil {
		return Acquired{}, err
	}
	return p.Wait(ctx)
}

// Acquiring is an acquire under way.
type Acquiring struct {
	client *Client
	ch     <-chan answer
}

// BeginAcquire calls the lock's acquire and returns at once; the next call of
// [Client.Next] is about it.
func (c *Client) BeginAcquire() (*Acquiring, error) {
	ch, err := c.jvm.send("acquire", c.Name)
	if err != nil {
		return nil, err
	}
	return &Acquiring{client: c, ch: ch}, nil
}

// Wait returns the result of the acquire. It must be called at most once.
func (a *Acquiring) Wait(ctx context.Context) (Acquired, error) {
	// The jar counts its sleeps and not its round trips, so with a slow server
	// it waits longer than its wait allows.
	words, err := a.client.jvm.await(ctx, 2*a.client.wait, "acquire", a.ch)
	if err != nil {
		return Acquired{}, err
	}
	if len(words) != 2 {
		return Acquired{}, badAnswer("acquire", words)
	}
	sleeps, err := strconv.Atoi(words[1].text)
	return Acquired{Won: words[0].text == "true", Sleeps: sleeps}, err
}

// Release calls the lock's release and waits for it.
func (c *Client) Release(ctx context.Context) error {
	wait, err := c.BeginRelease()
	if err != nil {
		return err
	}
	return wait(ctx)
}

// BeginRelease calls the lock's release and returns at once. wait returns when
// the release has ended. It must be called at most once.
func (c *Client) BeginRelease() (wait func(context.Context) error, err error) {
	ch, err := c.jvm.send("release", c.Name)
	return func(ctx context.Context) error {
		_, err := c.jvm.await(ctx, 0, "release", ch)
		return err
	}, err
}

// Goodbye says that the client's lock object is no longer used; a [Dual] one
// leaves the registry.
func (c *Client) Goodbye(ctx context.Context) error {
	_, err := c.jvm.order(ctx, 0, "goodbye", c.Name)
	return err
}

// Die cuts the client's connection without a release, as a crash would, and
// forgets the client. After it returns, the client sends nothing more; an
// acquire or a loop under way has failed.
func (c *Client) Die(ctx context.Context) error {
	_, err := c.jvm.order(ctx, 0, "die", c.Name)
	return err
}

// Held reads the lock object's own flag, which is all that the object knows: it
// stays true if another client takes the lock over.
func (c *Client) Held(ctx context.Context) (bool, error) {
	words, err := c.jvm.order(ctx, 0, "state", c.Name)
	if err != nil {
		return false, err
	}
	if len(words) != 2 {
		return false, badAnswer("state", words)
	}
	return words[0].text == "held", nil
}
