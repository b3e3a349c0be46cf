// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

// ErrNode is the refusal of a node of a cluster of several. A single node that
// has all slots is no trouble for a lock without a second key.
var ErrNode = errors.New("it is a node of a Redis Cluster of several: for token locks write redis+cluster://host:port, for others use a single primary")

// Refuse returns ErrNode if the server is one of several nodes. A user without
// the rights to ask for that reads a few keys that nobody writes.
func Refuse(ctx context.Context, c redis.Conn) error {
	info, err := redis.String(redis.DoContext(c, ctx, "INFO", "cluster"))
	if err == nil && !strings.Contains(info, "cluster_enabled:1") {
		return nil
	}
	if err == nil {
		slots, err := redis.Values(redis.DoContext(c, ctx, "CLUSTER", "SLOTS"))
		switch {
		case err == nil && len(slots) == 1 && hasAll(slots[0]):
			return nil
		case err == nil || replied(err):
			return ErrNode
		}
		return err
	}
	if !replied(err) {
		return err
	}
	for _, key := range quarters {
		if _, err := redis.DoContext(c, ctx, "GET", key); wire.IsCluster(err) {
			return fmt.Errorf("%w (it answered: %v)", ErrNode, err)
		} else if err != nil && !replied(err) {
			return err
		}
	}
	return nil
}

func replied(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// quarters are keys in each quarter of a cluster's slots: no node of several
// serves all of them, unless slots are spread unevenly.
var quarters = []string{"gsl:trial:{b}", "gsl:trial:{a}", "gsl:trial:{c}", "gsl:trial:{d}"}

// hasAll reports that one range of CLUSTER SLOTS is all slots.
func hasAll(slots any) bool {
	of, err := redis.Values(slots, nil)
	if err != nil || len(of) < 2 {
		return false
	}
	first, _ := redis.Int(of[0], nil)
	last, _ := redis.Int(of[1], nil)
	return first == 0 && last == 16383
}
