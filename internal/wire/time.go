// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Clock reads a reply of TIME: seconds since 1970, and microseconds within the
// second. It refuses values that no Redis server sends. Envoy answers TIME
// itself, by its own clock, with microseconds since 1970. Added to the seconds
// they would move fencing numbers and stamps decades ahead.
func Clock(reply any, err error) (sec, usec int64, _ error) {
	parts, err := redis.Int64s(reply, err)
	switch {
	case errors.Is(err, redis.ErrNil) || err == nil && len(parts) != 2:
		return 0, 0, &clockError{fmt.Sprintf("%d parts", len(parts))}
	case err != nil:
		return 0, 0, err
	case parts[0] < 0 || parts[1] < 0 || parts[1] >= 1_000_000:
		return 0, 0, &clockError{fmt.Sprintf("%d seconds and %d microseconds", parts[0], parts[1])}
	}
	return parts[0], parts[1], nil
}

// Time is Clock as an instant, in UTC.
func Time(reply any, err error) (time.Time, error) {
	sec, usec, err := Clock(reply, err)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(sec*1e6 + usec).UTC(), nil
}

// clockError is a reply of TIME that no Redis server sends.
type clockError struct{ said string }

func (e *clockError) Error() string {
	return "TIME answered " + e.said + ", which no Redis server does"
}

// Passing is false: the same proxy will answer the next time.
func (e *clockError) Passing() bool { return false }

func foreignClock(err error) bool {
	var c *clockError
	return errors.As(err, &c)
}
