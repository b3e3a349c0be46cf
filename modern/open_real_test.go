// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// The password and the client's certificate are replaced, and every connection
// ends. The lease that was held stays held, and others are taken.
func TestClientGoesOnWithAReplacedPassword(t *testing.T) {
	s := redistest.Real(t, redistest.Options{TLS: true, Certs: true})
	dir := t.TempDir()
	cert, key := s.ClientCert(dir, "app", time.Hour)
	file := filepath.Join(dir, "password")
	replace := func(password string) {
		next := file + ".new"
		if err := os.WriteFile(next, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	s.User("app", "s3cret1", "~*", "&*", "+@all")
	replace("s3cret1")
	client, err := modern.Open(t.Context(), "rediss://app@"+s.Addr(), modern.Options{
		Redis: redisconn.Options{CACert: s.CACert(), Cert: cert, Key: key, PasswordFile: file},
		Lock:  lock.Config{TTL: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(bg)
	held := acquire(t, client, "held")

	replace("s3cret2")
	s.ClientCert(dir, "app", 2*time.Hour)
	s.Do("ACL", "SETUSER", "app", "resetpass", ">s3cret2")
	if killed := s.Do("CLIENT", "KILL", "USER", "app"); killed.(int64) == 0 {
		t.Fatal("no connection was killed")
	}
	ctx, cancel := context.WithTimeout(bg, redistest.Patience) // Renew tries until the lease ends
	defer cancel()
	if err := held.Renew(ctx); err != nil {
		t.Errorf("the held lease: %v", err)
	}
	if err := acquire(t, client, "other").Release(); err != nil {
		t.Error(err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}
