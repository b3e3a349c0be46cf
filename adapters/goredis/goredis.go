// SPDX-License-Identifier: Apache-2.0

// Package goredis opens locks by the connections of a client of go-redis: its
// dialer, TLS, passwords, and the sentinels of a FailoverClient.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis.example:6379"})
//	locks, err := goredis.Open(ctx, client, modern.Options{})
//	…
//	lease, err := locks.Acquire(ctx, "stock:4711")
//
// For locks that old clients share, give what [Options] returns to package
// legacy or redisconn. The locks have connections of their own, opened by that
// dialer: a lock must be renewed even while the client's pool is used up.
package goredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// Open opens token locks by the connections of client. It sets o.Redis.
func Open(ctx context.Context, client *redis.Client, o modern.Options) (*lock.Client, error) {
	address, options := Options(client)
	o.Redis = options
	return modern.Open(ctx, address, o)
}

// Options returns an address and options that open the connections of client.
// A StreamingCredentialsProvider cannot be handed over: let
// redisconn.Options.Credentials return its newest user and password.
func Options(client *redis.Client) (address string, options redisconn.Options) {
	o := client.Options()
	options.Conn = func(ctx context.Context) (net.Conn, error) { return o.Dialer(ctx, o.Network, o.Addr) }
	switch {
	case o.CredentialsProviderContext != nil:
		options.Credentials = o.CredentialsProviderContext
	case o.CredentialsProvider != nil:
		options.Credentials = func(context.Context) (user, password string, err error) {
			user, password = o.CredentialsProvider()
			return user, password, nil
		}
	case o.Password != "":
		options.User, options.Password = o.Username, o.Password
	}
	// The dialer knows the server, so the address names only the database.
	return fmt.Sprintf("redis://existing.connections/%d", o.DB), options
}
