// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates of servers and clients on this machine.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcdtest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := a.sign("authority", a.cert, &key.PublicKey)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// file is the path of a file that sign or issue wrote.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

func (a *authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (a *authority) sign(name string, cert *x509.Certificate, public *ecdsa.PublicKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, public, a.key)
	if err == nil {
		err = a.write(name, "CERTIFICATE", der)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// issue writes a certificate of the name and the file of its key, and returns
// both.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	a.last++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.last), Subject: pkix.Name{CommonName: name},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &key.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	written := a.write(name+"-key", "PRIVATE KEY", der)
	pair, loaded := tls.LoadX509KeyPair(a.file(name), a.file(name+"-key"))
	if err := errors.Join(err, written, loaded); err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// trusts is the Config of a client that trusts the authority and has these
// certificates.
func (a *authority) trusts(own ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, Certificates: own}
}
