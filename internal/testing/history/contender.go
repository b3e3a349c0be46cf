// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Contender takes one key again and again, for random times, and records what
// it believed.
type Contender struct {
	Client *lock.Client
	ID     int
	Rand   *rand.Rand
	Note   func(Step)
}

// Key is the key that contenders take.
const Key = "contended"

// Now is the machine's clock in Steps.
func Now() int64 { return time.Now().UnixNano() }

// Run takes the key until ctx ends.
func (c *Contender) Run(ctx context.Context) {
	for ctx.Err() == nil {
		looks := c.Rand.IntN(6)
		if c.Rand.IntN(20) == 0 {
			looks = 200 // longer than a lease lives without renewals
		}
		// An acquisition that is cancelled at a random instant leaves no
		// belief.
		wait := time.Duration(1+c.Rand.IntN(3000)) * time.Millisecond
		_ = c.Attempt(ctx, Key, wait, func(look int) <-chan time.Time {
			if look == looks {
				return nil
			}
			return time.After(time.Duration(c.Rand.IntN(15)) * time.Millisecond)
		})
	}
}

// Attempt waits for a key for so long at most, and holds it as Hold says.
func (c *Contender) Attempt(ctx context.Context, key string, wait time.Duration,
	next func(look int) <-chan time.Time) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	from := Now()
	l, err := c.Client.Acquire(limited, key)
	if err != nil {
		return err
	}
	c.Hold(l, from, next)
	return nil
}

// Hold records a lease that was asked for at that time, looks at it whenever
// the channel of next has a value or the lease is lost, and releases it when
// next returns nil. What it does not see may have happened at any time since
// the last look.
func (c *Contender) Hold(l *lock.Lease, asked int64, next func(look int) <-chan time.Time) {
	fence, _ := l.Fence()
	c.Note(Step{Client: c.ID, Kind: Acquired, From: asked, To: Now(), Fence: fence})
	seen := Now()
	for look := 0; ; look++ {
		wait := next(look)
		if wait == nil {
			break
		}
		select {
		case <-wait:
		case <-l.Done():
		}
		from := Now()
		if l.Err() != nil {
			break
		}
		c.Note(Step{Client: c.ID, Kind: Trusted, From: from, To: Now(), Fence: fence})
		seen = Now()
	}
	_ = l.Release() // whatever it returns, the contender no longer trusts the lease
	c.Note(Step{Client: c.ID, Kind: Ended, From: seen, To: Now()})
}
