// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package stores

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificates are files with an authority's certificate, and a certificate of
// 127.0.0.1 that it signed, for servers and clients.
type certificates struct{ authority, cert, key string }

func newCertificates(t *testing.T) certificates {
	t.Helper()
	dir := t.TempDir()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		fail(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	made := func(serial int64, change func(*x509.Certificate)) *x509.Certificate {
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		change(c)
		return c
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	authority := made(1, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey,
		authorityKey)
	fail(err)
	leaf := made(2, func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	})
	cert, err := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, authorityKey)
	fail(err)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	fail(err)
	return certificates{write("authority.pem", "CERTIFICATE", signed), write("cert.pem", "CERTIFICATE", cert),
		write("key.pem", "PRIVATE KEY", keyBytes)}
}
