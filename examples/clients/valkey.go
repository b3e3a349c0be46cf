package clients

import (
	"context"
	"fmt"
	"net"

	"github.com/valkey-io/valkey-go"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// doc: valkey-go

// FromValkey opens locks by the options of a client of valkey-go. A DialCtxFn
// gets the TLS configuration and does the handshake, as valkey-go expects.
func FromValkey(ctx context.Context, o valkey.ClientOption) (*lock.Client, error) {
	options := redisconn.Options{User: o.Username, Password: o.Password}
	if fn := o.AuthCredentialsFn; fn != nil {
		options.User, options.Password = "", ""
		options.Credentials = func(context.Context) (user, password string, err error) {
			c, err := fn(valkey.AuthCredentialsContext{})
			return c.Username, c.Password, err
		}
	}
	if dial := o.DialCtxFn; dial != nil {
		options.Conn = func(ctx context.Context) (net.Conn, error) {
			return dial(ctx, o.InitAddress[0], &o.Dialer, o.TLSConfig)
		}
		return modern.Open(ctx, address(o.SelectDB), modern.Options{Redis: options})
	}
	scheme := "redis"
	if o.TLSConfig != nil {
		scheme, options.TLS = "rediss", o.TLSConfig
	}
	options.DialContext = o.Dialer.DialContext
	return modern.Open(ctx, fmt.Sprintf("%s://%s/%d", scheme, o.InitAddress[0], o.SelectDB),
		modern.Options{Redis: options})
}

// doc: end
