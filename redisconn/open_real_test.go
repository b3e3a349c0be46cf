// SPDX-License-Identifier: Apache-2.0

//go:build real

package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// opened opens the address, and fails the test unless that works, or if says is
// not empty unless the error has these words. No error may have a password.
func opened(t *testing.T, name, address string, o Options, says ...string) *redis.Pool {
	t.Helper()
	pool, err := Open(t.Context(), address, o)
	if len(says) == 0 {
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		t.Cleanup(func() { pool.Close() })
		return pool
	}
	if err == nil {
		t.Errorf("%s: opened", name)
		return nil
	}
	for _, word := range says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error lacks %q: %v", name, word, err)
		}
	}
	if text := shows(err, "s3cret"); text != "" || strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("%s: %v", name, err)
	}
	if testing.Verbose() {
		t.Logf("%s: %v", name, err)
	}
	return nil
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestOpenSaysWhichPasswordIsMissing(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{Password: "s3cret"})
			bare, none := "redis://"+s.Addr(), binary.Start(t, redistest.Options{})
			opened(t, "in the address", s.URL(), Options{})
			opened(t, "in the options", bare, Options{Password: "s3cret"})
			socket := binary.Start(t, redistest.Options{Unix: true, Password: "s3cret@/x"})
			opened(t, "at a socket", socket.URL(), Options{})
			opened(t, "in a file", bare, Options{PasswordFile: write(t, "s3cret\r\n")})
			opened(t, "by a function", bare, Options{
				Credentials: func(context.Context) (string, string, error) { return "", "s3cret", nil }})
			opened(t, "none", bare, Options{}, "demands a password, and none was given", "--password-file",
				"$GETSETLOCK_PASSWORD")
			opened(t, "none, with a database", bare+"/1", Options{}, "demands a password, and none was given")
			opened(t, "wrong", bare, Options{Password: "s3crets"}, "the password is wrong")
			opened(t, "none wanted", "redis://"+none.Addr(), Options{Password: "s3cret"},
				"leave it out")
			opened(t, "function fails", bare, Options{
				Credentials: func(context.Context) (string, string, error) {
					return "", "", errors.New("no token for this host")
				}}, "Options.Credentials: no token for this host")
			if !binary.ACL {
				opened(t, "a user", s.URLFor("app", "s3cret"), Options{}, "leave the user out")
				return
			}
			opened(t, "no such user", s.URLFor("app", "s3cret"), Options{}, "knows no such user")
			s.User("app", "s3cret2", "~*", "+@all", "-info", "-cluster")
			opened(t, "a user", s.URLFor("app", "s3cret2"), Options{})
			opened(t, "a user by options", bare, Options{User: "app", Password: "s3cret2"})
			opened(t, "a user's file", "redis://app@"+s.Addr(), Options{PasswordFile: write(t, "s3cret2")})
			s.User("locked", "s3cret3", "~app:*", "+set")
			opened(t, "a user without PING", s.URLFor("locked", "s3cret3"), Options{})
			opened(t, "another password", s.URLFor("app", "s3cret3"), Options{}, "or the password is wrong")
		})
	}
}

// Redis 2.8 has no TLS, and neither has the Valkey that the tests build.
func speaksTLS(b redistest.Binary) bool { return b.ACL && strings.HasPrefix(b.Name, "redis-") }

func TestOpenSaysWhatTLSLacks(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		if !speaksTLS(binary) {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			dir := t.TempDir()
			s := binary.Start(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret"})
			open := binary.Start(t, redistest.Options{TLS: true})
			bare := binary.Start(t, redistest.Options{})
			cert, key := s.ClientCert(dir, "app", time.Hour)
			old, oldKey := s.ClientCert(dir, "old", -time.Hour)
			other, otherKey := open.ClientCert(dir, "other", time.Hour)
			with := func(cert, key string) Options {
				return Options{CACert: s.CACert(), Cert: cert, Key: key}
			}
			opened(t, "all there", s.URL(), with(cert, key))
			demands := "demands a client certificate, and none was given"
			opened(t, "no certificate", s.URL(), with("", ""), demands, "--cert", "$GETSETLOCK_CERT")
			opened(t, "no certificate and no password", "rediss://"+s.Addr(), with("", ""), demands)
			opened(t, "expired", s.URL(), with(old, oldKey), "does not accept the client certificate "+old)
			opened(t, "signed by another", s.URL(), with(other, otherKey),
				"does not accept the client certificate "+other)
			opened(t, "no CA", open.URL(), Options{}, "knows no authority", "--cacert")
			opened(t, "another CA", open.URL(), Options{CACert: s.CACert(), CACertFrom: "--ca"},
				"checked against the certificates of --ca "+s.CACert(), "another authority")
			opened(t, "plain to TLS", "redis://"+open.Addr(), Options{}, "wants TLS: write rediss://")
			opened(t, "plain to TLS, with a password", "redis://:s3cret@"+open.Addr(), Options{},
				"wants TLS: write rediss://")
			opened(t, "TLS to plain", "rediss://"+bare.Addr(), Options{Timeout: 500 * time.Millisecond},
				"no answer to the TLS handshake", "write redis://")
			opened(t, "cert without key", s.URL(), with(cert, ""), "give both")
			opened(t, "mixed up", s.URL(), with(cert, otherKey), "private key does not match")
			opened(t, "no file", s.URL(), with(cert, cert+"x"), cert+"x", "no such file")
		})
	}
}

func TestOpenReachesWhatSentinelsProtect(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		if !speaksTLS(binary) {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret"})
			w := s.StartSentinel(redistest.Options{TLS: true, Certs: true, Password: "s3cret5"})
			cert, key := s.ClientCert(t.TempDir(), "app", time.Hour)
			address := "rediss+sentinel://:s3cret@" + w.Addr() + "/m"
			o := Options{CACert: s.CACert(), Cert: cert, Key: key, SentinelPassword: "s3cret5"}
			opened(t, "all there", address, o)
			o.SentinelPassword, o.SentinelPasswordFile = "", write(t, "s3cret5\n")
			opened(t, "by a file", address, o)
			o.SentinelPasswordFile = ""
			opened(t, "no password", address, o, "the sentinel demands a password",
				"$GETSETLOCK_SENTINEL_PASSWORD")
			o.SentinelPassword = "s3cret"
			opened(t, "the server's", address, o, "the sentinel's default user", "$GETSETLOCK_SENTINEL_USER")
			w.User("app", "s3cret6", "+sentinel", "+ping")
			o.SentinelUser, o.SentinelPassword = "app", "s3cret6"
			opened(t, "a user", address, o)
			o.SentinelPassword = "s3cret"
			opened(t, "a user's wrong password", address, o, "the sentinel knows no such user")
			o.SentinelPassword = "s3cret6"
			opened(t, "no password for the server", "rediss+sentinel://"+w.Addr()+"/m", o,
				"the server demands a password")
			opened(t, "another name", "rediss+sentinel://:s3cret@"+w.Addr()+"/n", o, "knows no such master")
			opened(t, "plain", "redis+sentinel://:s3cret@"+w.Addr()+"/m",
				Options{SentinelPassword: "s3cret5"}, "the sentinel closed", "write rediss+sentinel://")
			o.Cert, o.Key = "", ""
			opened(t, "no certificate", address, o, "the sentinel demands a client certificate")

			bare := s.StartSentinel(redistest.Options{})
			opened(t, "a sentinel as the server", "redis://"+bare.Addr(), Options{}, "it is a sentinel",
				"write redis+sentinel://")
			o = Options{CACert: s.CACert(), Cert: cert, Key: key, SentinelPlain: true}
			opened(t, "a plain sentinel", "rediss+sentinel://:s3cret@"+bare.Addr()+"/m", o)
			o.SentinelPlain, o.Timeout = false, 500*time.Millisecond
			opened(t, "a plain sentinel, asked by TLS", "rediss+sentinel://:s3cret@"+bare.Addr()+"/m", o,
				"no answer to the TLS handshake", "Options.SentinelPlain")
		})
	}
}

// A password and a client certificate are replaced while the program runs.
func TestPoolReadsReplacedFiles(t *testing.T) {
	s := redistest.Real(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret1"})
	dir := t.TempDir()
	cert, key := s.ClientCert(dir, "app", time.Hour)
	file := write(t, "s3cret1")
	pool := opened(t, "at first", "rediss://"+s.Addr(),
		Options{CACert: s.CACert(), Cert: cert, Key: key, PasswordFile: file})
	ping := func() error {
		c, err := pool.DialContext(t.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("PING")
		return err
	}
	s.ClientCert(dir, "app", -time.Hour)
	if err := ping(); err == nil || !strings.Contains(err.Error(), "does not accept the client certificate") {
		t.Errorf("with a certificate that has expired: %v", err)
	}
	s.ClientCert(dir, "app", time.Hour)
	s.Do("CONFIG", "SET", "requirepass", "s3cret2")
	if err := ping(); err == nil || !strings.Contains(err.Error(), "password is wrong") {
		t.Errorf("with the old password: %v", err)
	}
	if err := os.WriteFile(file, []byte("s3cret2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ping(); err != nil {
		t.Errorf("with both replaced: %v", err)
	}
}

func TestOpenUsesAnotherLibrarysConnections(t *testing.T) {
	s := redistest.Real(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret"})
	dials := 0
	o := Options{Conn: func(ctx context.Context) (net.Conn, error) { dials++; return s.Dial(ctx) }}
	opened(t, "a connection alone", "", o, "demands a password", "Options.Conn")
	opened(t, "with a password", "redis://:s3cret@cache/3", o)
	o.Password = "s3cret"
	opened(t, "without an address", "", o)
	if dials != 3 {
		t.Errorf("%d connections", dials)
	}
	opened(t, "with TLS as well", "rediss://cache", o, "write the address as redis://")
}

const slotOfA = 15495 // the slot of {a}

func TestOpenRefusesACluster(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL {
			continue // Redis 2.8 has no cluster
		}
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{Args: []string{"--cluster-enabled", "yes",
				"--cluster-require-full-coverage", "no"}})
			address := "redis://" + s.Addr()
			opened(t, "without slots", address, Options{}, "a Redis Cluster of several")
			slots := redis.Args{"ADDSLOTS"}
			for slot := range 16384 {
				if slot != slotOfA {
					slots = append(slots, slot)
				}
			}
			s.Do("CLUSTER", slots...)
			opened(t, "with some slots", address, Options{}, "a Redis Cluster of several")
			app := s.User("app", "s3cret", "~*", "+get", "+ping")
			opened(t, "by a user with few rights", app, Options{}, "a Redis Cluster of several",
				"it answered")
			s.Do("CLUSTER", "ADDSLOTS", slotOfA)
			awaitCluster(t, s)
			opened(t, "with all slots", address, Options{})
			opened(t, "with all slots, by that user", app, Options{})
		})
	}
}

func awaitCluster(t *testing.T, s *redistest.Server) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); ; {
		info, err := redis.String(s.Do("CLUSTER", "INFO"), nil)
		if err == nil && strings.Contains(info, "cluster_state:ok") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster is not ready: %s", info)
		}
		<-time.After(10 * time.Millisecond)
	}
}
