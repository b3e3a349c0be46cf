// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// doc: rueidis

// FromRueidis opens locks by the options of a client of rueidis. A DialCtxFn
// gets the TLS configuration and does the handshake, as rueidis expects. With
// Sentinel it is not used: getsetlock asks the sentinels by itself.
func FromRueidis(ctx context.Context, o rueidis.ClientOption) (*lock.Client, error) {
	options := redisconn.Options{User: o.Username, Password: o.Password}
	if fn := o.AuthCredentialsFn; fn != nil {
		options.User, options.Password = "", ""
		options.Credentials = func(context.Context) (user, password string, err error) {
			c, err := fn(rueidis.AuthCredentialsContext{})
			return c.Username, c.Password, err
		}
	}
	sentinel := o.Sentinel
	if dial := o.DialCtxFn; dial != nil && sentinel.MasterSet == "" {
		options.Conn = func(ctx context.Context) (net.Conn, error) {
			return dial(ctx, o.InitAddress[0], &o.Dialer, o.TLSConfig)
		}
		return modern.Open(ctx, address(o.SelectDB), modern.Options{Redis: options})
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
	return modern.Open(ctx, fmt.Sprintf("%s://%s/%d", scheme, place, o.SelectDB),
		modern.Options{Redis: options})
}

// doc: end
