// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"context"
	"errors"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/cluster"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/redisconn"
)

// onCluster are the locks of all primaries of a Redis Cluster.
type onCluster struct {
	nodes   redisconn.Nodes
	address string // without its password
	open    func(pool *redis.Pool, node string) (*onRedis, error)
	table   *cluster.Table

	made map[string]*onRedis
}

func openCluster(nodes redisconn.Nodes, address string,
	open func(*redis.Pool, string) (*onRedis, error)) *onCluster {
	return &onCluster{nodes: nodes, address: address, open: open, made: map[string]*onRedis{},
		table: cluster.Looking(nodes.Seeds, nodes.Pool)}
}

// at returns the locks of one node.
func (c *onCluster) at(node string) (*onRedis, error) {
	if r := c.made[node]; r != nil {
		return r, nil
	}
	r, err := c.open(c.nodes.Pool(node), c.address+" ("+node+")")
	if err != nil {
		return nil, err
	}
	r.node = true
	c.made[node] = r
	return r, nil
}

// of returns the locks of the primary that serves key.
func (c *onCluster) of(ctx context.Context, key string) (*onRedis, error) {
	node, err := c.table.Owner(ctx, names.Slot(key))
	if err != nil {
		return nil, err
	}
	return c.at(node)
}

// each collects what look returns of every primary. With an error it returns
// what the others have.
func (c *onCluster) each(ctx context.Context, look func(*onRedis) ([]lockLine, error)) ([]lockLine, error) {
	primaries, err := c.table.Primaries(ctx)
	if err != nil {
		return nil, err
	}
	var all []lockLine
	var errs []error
	for _, node := range primaries {
		r, err := c.at(node)
		var lines []lockLine
		if err == nil {
			lines, err = look(r)
		}
		if err != nil {
			errs = append(errs, out.CouldNot(err, "reading %s", node))
		}
		all = append(all, lines...)
	}
	slices.SortFunc(all, byName)
	return all, errors.Join(errs...)
}

func (c *onCluster) look(ctx context.Context, f *lsFlags, pattern string,
	p *out.Progress) ([]lockLine, error) {
	what, isPattern := keyOrPattern(pattern)
	if pattern != "" && !isPattern {
		r, err := c.of(ctx, what)
		if err != nil {
			return nil, err
		}
		return r.look(ctx, f, pattern, p)
	}
	return c.each(ctx, func(r *onRedis) ([]lockLine, error) { return r.look(ctx, f, pattern, p) })
}

func (c *onCluster) find(ctx context.Context, key string) (lockLine, error) {
	r, err := c.of(ctx, key)
	if err != nil {
		return lockLine{}, err
	}
	return r.find(ctx, key)
}

func (c *onCluster) force(ctx context.Context, key, value string) (legacy.Deleted, error) {
	r, err := c.of(ctx, key)
	if err != nil {
		return legacy.Deleted{}, err
	}
	return r.force(ctx, key, value)
}

func (c *onCluster) where() string { return c.address }

func (c *onCluster) told(err error) error { return err }

func (c *onCluster) close() {
	c.table.Close()
	for _, r := range c.made {
		r.close()
	}
}
