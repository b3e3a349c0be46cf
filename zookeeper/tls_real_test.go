// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// certified returns a file with a key and a certificate for 127.0.0.1 that
// signs itself, and a pool that trusts it.
func certified(t *testing.T) (file string, trusted *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zookeeper"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	text := bytes.Join([][]byte{secret, public}, nil)
	file = filepath.Join(t.TempDir(), "server.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(public)
	return file, trusted
}

// shakes waits for a server's first handshake, which is slow and comes after
// the port without TLS is open.
func shakes(t *testing.T, server *zktest.Server, address string, trusted *x509.CertPool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	first := tls.Dialer{Config: &tls.Config{RootCAs: trusted}}
	for {
		conn, err := first.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%v; the server printed:\n%s", err, server.Said())
		}
	}
}

func TestLocksAreTakenOverTLS(t *testing.T) {
	t.Parallel()
	file, trusted := certified(t)
	port := program.Port(t)
	secure := "127.0.0.1:" + port
	server := zktest.Start(t, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort="+port, "ssl.keyStore.location="+file, "ssl.clientAuth=none",
		"ssl.trustStore.location="+file)
	shakes(t, server, secure, trusted)
	plain := client(t, lock.Config{}, server.Addr)
	lease := acquire(t, plain, "k")
	c := open(t, "zookeeper://"+secure+"/locks",
		zookeeper.Options{Backend: zookeeper.Config{TLS: &tls.Config{RootCAs: trusted}}})
	if info, err := c.Inspect(context.Background(), "k"); err != nil || info.Held == nil {
		t.Errorf("a lock that a client without TLS holds: %+v, %v", info, err)
	}
	release(t, lease)
	release(t, acquire(t, c, "k"))

	const ttl = time.Minute
	strange := zookeeper.Config{TLS: &tls.Config{}}
	through := "TLS with " + secure
	wants(t, "an unknown authority", try(t, strange, "k", ttl, secure), false, through, "authority")
	other := zookeeper.Config{TLS: &tls.Config{RootCAs: trusted, ServerName: "elsewhere"}}
	wants(t, "another name", try(t, other, "k", ttl, secure), false, through, "elsewhere")
	wants(t, "no TLS", try(t, zookeeper.Config{}, "k", ttl, secure), true, "did not greet")
	mistaken := zookeeper.Config{TLS: &tls.Config{RootCAs: trusted}}
	wants(t, "an unknown authority at one of two", try(t, strange, "k", ttl, secure, "127.0.0.1:1"), true,
		"do the servers")
	wants(t, "TLS to a plain port", try(t, mistaken, "k", ttl, server.Addr), true, "TLS with "+server.Addr)
}
