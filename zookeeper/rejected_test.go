// SPDX-License-Identifier: Apache-2.0

package zookeeper_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/zookeeper"
)

// The server wants a certificate of the client, and the client has none. No
// waiting mends that.
func TestAttemptEndsIfTheServerWantsACertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	b, err := zookeeper.New([]string{server.Listener.Addr().String()},
		zookeeper.Config{TLS: &tls.Config{RootCAs: trusted}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Contract().Try(context.Background(), "k", 30*time.Second)
	var p interface{ Passing() bool }
	if !errors.As(err, &p) || p.Passing() ||
		!strings.Contains(err.Error(), "wants a certificate that it trusts (set Config.TLS.Certificates)") {
		t.Errorf("Try: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
