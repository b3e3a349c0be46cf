package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// throughSentinels asks one sentinel after the other for the master and connects to it. What a
// sentinel says can be old, so the server found is asked for its role: a lock taken on a replica or
// on a deposed master would be no lock. Between that answer and our first command the master can
// still change; the lock's own rules have to bear that, here as with every failover.
func (d *dialer) throughSentinels(ctx context.Context) (redis.Conn, error) {
	var failed []string
	for _, address := range d.hosts {
		c, err := d.throughSentinel(ctx, address)
		if err == nil {
			return c, nil
		}
		failed = append(failed, fmt.Sprintf("sentinel %s: %v", address, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("no sentinel leads to a master named %q: %s; check that name and the sentinels' addresses", d.master, strings.Join(failed, "; "))
}

func (d *dialer) throughSentinel(ctx context.Context, address string) (redis.Conn, error) {
	master, err := d.askSentinel(ctx, address)
	if err != nil {
		return nil, err
	}
	c, err := d.open(ctx, "tcp", master)
	if err != nil {
		return nil, fmt.Errorf("master %s: %w", master, err)
	}
	role, err := redis.Values(redis.DoContext(c, ctx, "ROLE"))
	if err == nil && len(role) > 0 {
		if name, _ := redis.String(role[0], nil); name == "master" {
			return c, nil
		}
		err = errors.New("is not a master")
	}
	_ = c.Close()
	return nil, fmt.Errorf("%s: %w", master, err)
}

func (d *dialer) askSentinel(ctx context.Context, address string) (master string, err error) {
	c, err := redis.DialContext(ctx, "tcp", address, redis.DialContextFunc(d.net.DialContext))
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := redis.Strings(redis.DoContext(c, ctx, "SENTINEL", "get-master-addr-by-name", d.master))
	switch {
	case errors.Is(err, redis.ErrNil):
		return "", errors.New("knows no such master")
	case err != nil:
		return "", err
	case len(reply) != 2:
		return "", fmt.Errorf("answered with %d elements instead of host and port", len(reply))
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}
