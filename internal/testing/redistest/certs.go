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
}

func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	// The certificates are valid for ten years either way, so that tests may
	// shift clocks.
	from, until := time.Now().AddDate(-10, 0, 0), time.Now().AddDate(10, 0, 0)
	rootKey, key := newKey(t), newKey(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest authority"},
		NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redistest server"},
		NotBefore: from, NotAfter: until,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	a := &authority{}
	rootDER := sign(t, root, root, &rootKey.PublicKey, rootKey)
	a.root = writePEM(t, dir, "ca.pem", "CERTIFICATE", rootDER)
	a.cert = writePEM(t, dir, "server.pem", "CERTIFICATE", sign(t, cert, root, &key.PublicKey, rootKey))
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	a.key = writePEM(t, dir, "server.key", "PRIVATE KEY", keyDER)
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(rootDER)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	pool.AddCert(parsed)
	a.client = &tls.Config{RootCAs: pool, ServerName: "localhost"}
	return a
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
