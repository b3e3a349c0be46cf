// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// doc: go-redis

// FromGoRedis opens locks by the options of a client of go-redis. Its dialer
// does TLS, and finds the master where the client is a FailoverClient.
func FromGoRedis(ctx context.Context, client *redis.Client) (*lock.Client, error) {
	o := client.Options()
	options := redisconn.Options{
		Conn: func(ctx context.Context) (net.Conn, error) { return o.Dialer(ctx, o.Network, o.Addr) },
	}
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
	return modern.Open(ctx, address(o.DB), modern.Options{Redis: options})
}

// doc: end
