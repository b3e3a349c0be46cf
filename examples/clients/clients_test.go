// SPDX-License-Identifier: Apache-2.0

//go:build real

package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// works takes a key in database 3, and sees it there by the library's client.
func works(t *testing.T, name string, client *lock.Client, err error, get func(key string) (string, error)) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer client.Close(context.Background())
	lease, err := client.TryAcquire(t.Context(), name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if value, err := get(name); err != nil || value != lease.Token() {
		t.Errorf("%s: the library's client sees %q, %v", name, value, err)
	}
	if err := lease.Release(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// protected is a server that demands a certificate and a user's password, and
// the TLS configuration of its clients.
func protected(t *testing.T) (*redistest.Server, *tls.Config) {
	t.Helper()
	s := redistest.Real(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret"})
	s.User("app", "s3cret2", "~*", "&*", "+@all")
	pair, err := tls.LoadX509KeyPair(s.ClientCert(t.TempDir(), "app", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(s.CACert())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return s, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

func TestGoRedisHandsOverItsConnections(t *testing.T) {
	s, config := protected(t)
	ask := func(c *redis.Client) func(string) (string, error) {
		return func(key string) (string, error) { return c.Get(t.Context(), key).Result() }
	}
	options := redis.Options{Addr: s.Addr(), Username: "app", Password: "s3cret2", DB: 3, TLSConfig: config}
	client := redis.NewClient(&options)
	defer client.Close()
	locks, err := FromGoRedis(t.Context(), client)
	works(t, "password", locks, err, ask(client))

	options.Username, options.Password = "", ""
	options.CredentialsProviderContext = func(context.Context) (string, string, error) {
		return "app", "s3cret2", nil
	}
	tokens := redis.NewClient(&options)
	defer tokens.Close()
	locks, err = FromGoRedis(t.Context(), tokens)
	works(t, "credentials", locks, err, ask(tokens))

	options.CredentialsProviderContext = nil
	options.CredentialsProvider = func() (string, string) { return "app", "s3cret2" }
	older := redis.NewClient(&options)
	defer older.Close()
	locks, err = FromGoRedis(t.Context(), older)
	works(t, "credentials without a context", locks, err, ask(older))
}

// Its sentinels have a password of their own, and its dialer asks them.
func TestGoRedisFailoverHandsOverItsConnections(t *testing.T) {
	s := redistest.Real(t, redistest.Options{Password: "s3cret"})
	w := s.StartSentinel(redistest.Options{Password: "s3cret2"})
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m",
		SentinelAddrs: []string{w.Addr()}, SentinelPassword: "s3cret2", Password: "s3cret", DB: 3})
	defer client.Close()
	locks, err := FromGoRedis(t.Context(), client)
	works(t, "failover", locks, err,
		func(key string) (string, error) { return client.Get(t.Context(), key).Result() })
}

func TestRueidisHandsOverItsOptions(t *testing.T) {
	s, config := protected(t)
	o := rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "app", Password: "s3cret2",
		SelectDB: 3, TLSConfig: config}
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	get := func(key string) (string, error) {
		return client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
	}
	locks, err := FromRueidis(t.Context(), o)
	works(t, "options", locks, err, get)

	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn,
		error) {
		return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
	}
	o.Username, o.Password = "", ""
	o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{Username: "app", Password: "s3cret2"}, nil
	}
	locks, err = FromRueidis(t.Context(), o)
	works(t, "dialer", locks, err, get)
}

func TestValkeyHandsOverItsOptions(t *testing.T) {
	s, config := protected(t)
	o := valkey.ClientOption{InitAddress: []string{s.Addr()}, Username: "app", Password: "s3cret2",
		SelectDB: 3, TLSConfig: config}
	client, err := valkey.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	get := func(key string) (string, error) {
		return client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
	}
	locks, err := FromValkey(t.Context(), o)
	works(t, "options", locks, err, get)

	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn,
		error) {
		return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
	}
	o.Username, o.Password = "", ""
	o.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
		return valkey.AuthCredentials{Username: "app", Password: "s3cret2"}, nil
	}
	locks, err = FromValkey(t.Context(), o)
	works(t, "dialer", locks, err, get)
}

// The addresses are those of the sentinels, which have no keys.
func TestRueidisHandsOverItsSentinels(t *testing.T) {
	s, config := protected(t)
	for name, tls := range map[string]*tls.Config{"by TLS": config, "plain": nil} {
		w := s.StartSentinel(redistest.Options{TLS: tls != nil, Certs: tls != nil, Password: "s3cret4"})
		o := rueidis.ClientOption{InitAddress: []string{w.Addr()}, Username: "app", Password: "s3cret2",
			SelectDB: 3, TLSConfig: config,
			Sentinel: rueidis.SentinelOption{MasterSet: "m", Password: "s3cret4", TLSConfig: tls}}
		client, err := rueidis.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		locks, err := FromRueidis(t.Context(), o)
		works(t, name, locks, err, func(key string) (string, error) {
			return client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		})
	}
}

// The addresses are those of the sentinels, which have no keys.
func TestValkeyHandsOverItsSentinels(t *testing.T) {
	s, config := protected(t)
	for name, tls := range map[string]*tls.Config{"by TLS": config, "plain": nil} {
		w := s.StartSentinel(redistest.Options{TLS: tls != nil, Certs: tls != nil, Password: "s3cret4"})
		o := valkey.ClientOption{InitAddress: []string{w.Addr()}, Username: "app", Password: "s3cret2",
			SelectDB: 3, TLSConfig: config,
			Sentinel: valkey.SentinelOption{MasterSet: "m", Password: "s3cret4", TLSConfig: tls}}
		client, err := valkey.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		locks, err := FromValkey(t.Context(), o)
		works(t, name, locks, err, func(key string) (string, error) {
			return client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		})
	}
}
