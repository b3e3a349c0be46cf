// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// The table lists which trouble of servers and networks passes, and which no
// waiting mends.
func TestErrorsSayWhetherTheyPass(t *testing.T) {
	unsent := func(err error) error { return &NotSentError{Err: err} }
	for _, c := range []struct {
		err    error
		passes bool
		known  bool
	}{
		{unsent(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), true, true},
		{unsent(fmt.Errorf("dialing: %w", &net.DNSError{IsNotFound: true})), false, true},
		{unsent(&net.DNSError{IsTimeout: true}), true, true},
		{unsent(x509.UnknownAuthorityError{}), false, true},
		{unsent(x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}), false, true},
		{unsent(&tls.CertificateVerificationError{Err: errors.New("expired")}), false, true},
		{unsent(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), false, true},
		{unsent(x509.HostnameError{Certificate: &x509.Certificate{}}), false, true},
		{unsent(redis.Error("WRONGPASS invalid username-password pair")), false, true},
		{unsent(ErrClosed), false, true},
		{&UnknownError{Err: ErrTimeout}, true, true},
		{&UnknownError{Err: ErrLost}, true, true},
		{redis.Error("LOADING Redis is loading the dataset in memory"), true, true},
		{redis.Error("READONLY You can't write against a read only replica."), true, true},
		{redis.Error("BUSY Redis is busy running a script."), true, true},
		{redis.Error("MASTERDOWN Link with MASTER is down"), true, true},
		{redis.Error("MISCONF Redis is configured to save RDB snapshots"), true, true},
		{redis.Error("OOM command not allowed when used memory > 'maxmemory'."), true, true},
		{redis.Error("CLUSTERDOWN The cluster is down"), true, true},
		{redis.Error("NOAUTH Authentication required."), false, true},
		{redis.Error("NOPERM this user has no permissions"), false, true},
		{redis.Error("WRONGTYPE Operation against a key"), false, true},
		{redis.Error("MOVED 3999 127.0.0.1:6381"), false, true},
		{redis.Error("ERR unknown command 'EVALSHA'"), false, true},
		{redis.Error("ERR something else"), false, false},
		{context.Canceled, false, false},
	} {
		err := Judged(c.err)
		var p interface{ Passing() bool }
		known := errors.As(err, &p)
		if known != c.known || known && p.Passing() != c.passes {
			t.Errorf("%v: passes %v, known %v", c.err, known && p.Passing(), known)
		}
		if err.Error() != c.err.Error() || !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
	if Judged(nil) != nil {
		t.Error("nil became an error")
	}
}

// An answer counts as an answer: it shows that the server is there.
func TestJudgedAnswersAreAnswers(t *testing.T) {
	var a interface{ Answered() bool }
	if err := Judged(redis.Error("LOADING")); errors.As(err, &a) {
		t.Error("LOADING without its blank counts as a known answer")
	}
	if err := Judged(redis.Error("LOADING Redis is loading")); !errors.As(err, &a) || !a.Answered() {
		t.Errorf("%v is no answer", err)
	}
	if errors.As(Judged(&NotSentError{Err: errors.New("refused")}), &a) {
		t.Error("a dial that failed is an answer")
	}
}
