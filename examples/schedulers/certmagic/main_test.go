// SPDX-License-Identifier: Apache-2.0

//go:build real

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	locks "github.com/getsetlock/getsetlock/adapters/certmagic"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// authority issues certificates and counts them.
type authority struct{ issued atomic.Int32 }

func (*authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate,
	error) {
	a.issued.Add(1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, request.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func TestOneMachineGetsTheCertificate(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	folder, issuer := t.TempDir(), &authority{}
	var machines sync.WaitGroup
	for range 5 {
		machines.Go(func() {
			if err := obtain(t.Context(), s.URL(), folder, "shop.example", issuer); err != nil {
				t.Error(err)
			}
		})
	}
	machines.Wait()
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
}

// wrapped is a storage and the server that has its locks.
func wrapped(t *testing.T) (*locks.Storage, *redistest.Server) {
	t.Helper()
	server := redistest.Real(t, redistest.Options{})
	client, err := modern.Open(t.Context(), server.URL(), modern.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return locks.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, client, "certmagic:"), server
}

// What certmagic's own tests of its FileStorage ask. Those make the storage by
// themselves, and certmagic exports no tests for other storages, so they cannot
// be called. A value that is replaced while it is read is one of the two, and a
// lock is taken by a context that has ended if it is free, and only then.
func TestStoragePassesTestsOfCertmagic(t *testing.T) {
	s, _ := wrapped(t)
	ctx := t.Context()
	if err := s.Store(ctx, "foo", []byte("bar")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(ctx, "foo"); err != nil || string(got) != "bar" {
		t.Errorf("Load: %q, %v", got, err)
	}

	a, b := bytes.Repeat([]byte("a"), 4096*1024), bytes.Repeat([]byte("b"), 4096*1024)
	if err := s.Store(ctx, "foo", a); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error)
	go func() { stored <- s.Store(ctx, "foo", b) }()
	got, err := s.Load(ctx, "foo")
	if err := errors.Join(err, <-stored); err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
		t.Errorf("Load beside Store: %d bytes, %v", len(got), err)
	}

	ended, cancel := context.WithCancel(ctx)
	cancel()
	for range 2 {
		if err := s.Lock(ended, "foo"); err != nil {
			t.Errorf("Lock of a free lock: %v", err)
		}
		if err := s.Lock(ended, "foo"); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock of a held lock: %v", err)
		}
		if took, err := s.TryLock(ctx, "foo"); took || err != nil {
			t.Errorf("TryLock of a held lock: %v, %v", took, err)
		}
		if err := s.Unlock(ended, "foo"); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	}
	if err := s.Unlock(ctx, "foo"); err == nil {
		t.Error("Unlock of a free lock returned nil")
	}
}

func TestRenewalOfCertmagicHearsOfALoss(t *testing.T) {
	s, server := wrapped(t)
	ctx := t.Context()
	if err := s.RenewLockLease(ctx, "foo", time.Minute); err == nil {
		t.Error("a free lock was renewed")
	}
	if err := s.Lock(ctx, "foo"); err != nil {
		t.Fatal(err)
	}
	if err := s.RenewLockLease(ctx, "foo", time.Minute); err != nil {
		t.Error(err)
	}
	server.Do("DEL", "certmagic:foo")
	if err := s.RenewLockLease(ctx, "foo", time.Minute); !errors.Is(err, lock.ErrLost) {
		t.Errorf("a lost lock was renewed: %v", err)
	}
	if err := s.Unlock(ctx, "foo"); err != nil {
		t.Errorf("Unlock of a lost lock: %v", err)
	}
}
