package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Open parses address, connects once and sends a PING, so that a wrong password
// or an unreachable server shows here and not at the first lock. The pool dials
// anew for each backend that it is given to. The error names the server,
// without its password, and what was missing.
func Open(ctx context.Context, address string, o Options) (*redis.Pool, error) {
	a, err := Parse(address)
	if err != nil {
		return nil, err
	}
	pool, err := a.Pool(o)
	if err != nil {
		return nil, err
	}
	if err := try(ctx, pool); err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("could not open %s: %w", a.Redacted(), err)
	}
	return pool, nil
}

// try connects, asks for one reply and closes the connection.
func try(ctx context.Context, pool *redis.Pool) error {
	c, err := pool.DialContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = redis.DoContext(c, ctx, "PING")
	var refusal redis.Error
	if errors.As(err, &refusal) && strings.HasPrefix(string(refusal), "NOPERM ") {
		return nil // the user logged in, and may have all rights that a lock needs
	}
	return err
}
