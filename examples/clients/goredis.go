// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/getsetlock/getsetlock/adapters/goredis"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: go-redis

// FromGoRedis opens locks by a client of go-redis.
func FromGoRedis(ctx context.Context, client *redis.Client) (*lock.Client, error) {
	return goredis.Open(ctx, client, modern.Options{})
}

// doc: end
