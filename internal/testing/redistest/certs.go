// SPDX-License-Identifier: Apache-2.0

package redistest

import (
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
)

// authority is a certificate authority for one server, with its files in the
// server's directory.
type authority struct {
	root, cert, key string // paths of the files
	client          *tls.Config

	parent *x509.Certificate
	by     *ecdsa.PrivateKey
	issued int64 // the last serial number
}

func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{by: newKey(t), issued: 1}
	a.parent = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest authority"},
		NotBefore: time.Now().Add(-valid), NotAfter: time.Now().Add(valid),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER := sign(t, a.parent, a.parent, &a.by.PublicKey, a.by)
	a.root = writePEM(t, dir, "ca.pem", "CERTIFICATE", rootDER)
	a.cert, a.key = a.issue(t, dir, "server", valid)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(rootDER)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	pool.AddCert(parsed)
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a.client = &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{pair}}
	return a
}

// arguments name the files to a server.
func (a *authority) arguments() []string {
	return []string{"--tls-cert-file", a.cert, "--tls-key-file", a.key, "--tls-ca-cert-file", a.root}
}

// valid is how long certificates are valid either way, so that tests may shift
// clocks.
const valid = 10 * 365 * 24 * time.Hour

// issue writes a certificate for a server or a client and its key to files in
// dir. It is valid for this long from now; negative: it has expired since.
func (a *authority) issue(t testing.TB, dir, name string, left time.Duration) (cert, key string) {
	t.Helper()
	a.issued++
	private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.issued), Subject: pkix.Name{CommonName: "redistest " + name},
		NotBefore: time.Now().Add(-valid), NotAfter: time.Now().Add(left),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := sign(t, template, a.parent, &private.PublicKey, a.by)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	cert = writePEM(t, dir, name+".pem", "CERTIFICATE", der)
	return cert, writePEM(t, dir, name+".key", "PRIVATE KEY", keyDER)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return k
}

func sign(t testing.TB, cert, parent *x509.Certificate, pub *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, pub, by)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return der
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return path
}
