// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
)

// A caller that waits for a lock has to know whether trouble may pass. Errors
// for which that is known have a method Passing.

// Passing reports whether the next try may reach the server. It is false if the
// address, the certificate or the password is wrong, and after Close.
func (e *NotSentError) Passing() bool { return !isHopeless(e.Err) }

// Passing is true: connections are lost and replies come late, and the next
// call uses another connection.
func (e *UnknownError) Passing() bool { return true }

// answer is an error reply of a server, with whether it passes.
type answer struct {
	error
	passes bool
}

func (a *answer) Unwrap() error  { return a.error }
func (a *answer) Passing() bool  { return a.passes }
func (a *answer) Answered() bool { return true }

// Judged returns err with a method Passing, if err is the server's answer and
// it is known whether that passes. The text stays the same.
func Judged(err error) error {
	var judged interface{ Passing() bool }
	switch {
	case err == nil, errors.As(err, &judged):
		return err
	case isHopeless(err):
		return &answer{err, false}
	case IsPassing(err):
		return &answer{err, true}
	}
	return err
}

// FromServer reports whether err comes from the server or from the way to it:
// the server's own answer, a connection that failed, or an answer that did not
// come. Errors of a caller's own arguments do not.
func FromServer(err error) bool {
	var judged interface{ Passing() bool }
	var network *net.OpError
	var name *net.DNSError
	_, said := serverText(err)
	return said || errors.As(err, &judged) || errors.As(err, &network) || errors.As(err, &name) ||
		errors.Is(err, io.EOF) || badCertificate(err)
}

// badCertificate reports that TLS cannot work: the server's certificate is not
// valid, or the server does not speak TLS.
func badCertificate(err error) bool {
	var unverified *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	return errors.As(err, &unverified) || errors.As(err, &invalid) || errors.As(err, &plain)
}

// isHopeless reports trouble that no waiting mends. A dial hook may know more
// than the words say: see package redisconn.
func isHopeless(err error) bool {
	var judged interface{ Passing() bool }
	if errors.As(err, &judged) {
		return !judged.Passing()
	}
	for _, is := range []func(error) bool{
		IsNoAuth, IsNoPerm, IsWrongType, IsUnknownCommand, unknownAuthority, wrongName, noSuchHost,
		badCertificate, foreignClock, isA(ErrClosed),
		coded("MOVED ", "ASK ", "CROSSSLOT ", "DENIED ", "ERR DB index is out of range",
			"ERR invalid DB index"),
	} {
		if is(err) {
			return true
		}
	}
	return false
}
