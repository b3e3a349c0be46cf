// SPDX-License-Identifier: Apache-2.0

// Package valkeygo opens locks by the options of a client of valkey-go: its
// dialer, TLS, passwords and sentinels.
//
//	o := valkey.ClientOption{InitAddress: []string{"redis.example:6379"}}
//	locks, err := valkeygo.Open(ctx, o, modern.Options{})
//	…
//	lease, err := locks.Acquire(ctx, "stock:4711")
//
// For locks that old clients share, give what [Options] returns to package
// legacy or redisconn. The locks have connections of their own: a lock must be
// renewed even while the program's own traffic is stuck.
package valkeygo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// Open opens token locks by the options of a client. It sets options.Redis.
func Open(ctx context.Context, o valkey.ClientOption, options modern.Options) (*lock.Client, error) {
	address, redis, err := Options(o)
	if err != nil {
		return nil, err
	}
	options.Redis = redis
	return modern.Open(ctx, address, options)
}

// Options returns an address and options that connect as a client with o does.
// A DialCtxFn gets the TLS configuration and does the handshake, as valkey-go
// expects. With Sentinel it is not used: getsetlock asks the sentinels by
// itself.
func Options(o valkey.ClientOption) (address string, options redisconn.Options, err error) {
	if len(o.InitAddress) == 0 {
		return "", options, errors.New("valkeygo: ClientOption.InitAddress is empty")
	}
	options = redisconn.Options{User: o.Username, Password: o.Password}
	if fn := o.AuthCredentialsFn; fn != nil {
		options.User, options.Password = "", ""
		options.Credentials = func(context.Context) (user, password string, err error) {
			c, err := fn(valkey.AuthCredentialsContext{})
			return c.Username, c.Password, err
		}
	}
	sentinel := o.Sentinel
	if dial := o.DialCtxFn; dial != nil && sentinel.MasterSet == "" {
		options.Conn = func(ctx context.Context) (net.Conn, error) {
			return dial(ctx, o.InitAddress[0], &o.Dialer, o.TLSConfig)
		}
		// The dialer knows the server, so the address names only the database.
		return fmt.Sprintf("redis://existing.connections/%d", o.SelectDB), options, nil
	}
	scheme, place := "redis", o.InitAddress[0]
	if o.TLSConfig != nil {
		scheme, options.TLS = "rediss", o.TLSConfig
	}
	if sentinel.MasterSet != "" {
		scheme, place = scheme+"+sentinel", strings.Join(o.InitAddress, ",")+"/"+sentinel.MasterSet
		options.SentinelUser, options.SentinelPassword = sentinel.Username, sentinel.Password
		options.SentinelPlain = o.TLSConfig != nil && sentinel.TLSConfig == nil
	}
	options.DialContext = o.Dialer.DialContext
	return fmt.Sprintf("%s://%s/%d", scheme, place, o.SelectDB), options, nil
}
