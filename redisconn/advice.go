// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// advised is an error that says what to do about it.
type advised struct {
	error
	advice string
}

func (e *advised) Error() string { return strings.TrimSuffix(e.error.Error(), ".") + "; " + e.advice }
func (e *advised) Unwrap() error { return e.error }

// Advised keeps package wire from adding its general advice.
func (e *advised) Advised() bool { return true }

// explained adds what was missing, if err shows that.
func (p *peer) explained(err error) error {
	advice := p.loginAdvice(err)
	if advice == "" && p.tls != nil {
		advice, err = p.tlsAdvice(err)
	}
	if advice == "" && p.tls == nil && hungUp(err) {
		advice = fmt.Sprintf("the %s closed the connection without an answer, as it does where it wants TLS: write %s",
			p.who, p.otherScheme())
	}
	if advice == "" {
		return err
	}
	return &advised{err, advice}
}

func (p *peer) loginAdvice(err error) string {
	says := func(codes ...string) bool {
		var reply redis.Error
		for _, code := range codes {
			if errors.As(err, &reply) && strings.HasPrefix(string(reply), code) {
				return true
			}
		}
		return false
	}
	switch {
	case demandsPassword(err):
		return fmt.Sprintf("the %s demands a password, and none was given: %s", p.who, p.passwordWays())
	case says("ERR Client sent AUTH", "ERR AUTH <password> called without"):
		return fmt.Sprintf("the %s demands no password: leave it out, or name the user that it belongs to", p.who)
	case says("ERR wrong number of arguments for 'auth'"):
		return fmt.Sprintf("the %s is older than Redis 6 and knows no users: leave the user out", p.who)
	case !refusesPassword(err):
		return ""
	case p.login.user != "":
		return fmt.Sprintf("the %s knows no such user, the user is disabled, or the password is wrong", p.who)
	}
	return fmt.Sprintf("the password is wrong, or the %s's default user is disabled: then name a user%s", p.who, p.userWay())
}

func refusesPassword(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(string(reply), "WRONGPASS ") ||
		strings.HasPrefix(string(reply), "ERR invalid password"))
}

// demandsPassword reports that the peer wants a login and got none.
func demandsPassword(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) &&
		(strings.HasPrefix(string(reply), "NOAUTH ") || string(reply) == "ERR operation not permitted")
}

// refusesAll reports a reply after which the peer closes the connection.
func refusesAll(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(string(reply), "DENIED ") ||
		strings.HasPrefix(string(reply), "ERR max number of clients"))
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func (p *peer) userWay() string {
	if p.who == sentinelName {
		return fmt.Sprintf(" by $%s (Options.SentinelUser)", EnvSentinelUser)
	}
	return ", as in redis://user@host"
}

func (p *peer) passwordWays() string {
	if p.who == sentinelName {
		return fmt.Sprintf("set $%s or $%s (Options.SentinelPassword, Options.SentinelPasswordFile)",
			EnvSentinelPassword, EnvSentinelPasswordFile)
	}
	return fmt.Sprintf("write it in the address, set $%s, or name a file (--password-file, $%s; Options.PasswordFile)",
		EnvPassword, EnvPasswordFile)
}

// otherScheme is how the address begins with TLS where it has none, and the
// other way round.
func (p *peer) otherScheme() string {
	switch p.kind {
	case plain:
		return string(secure) + "://"
	case secure:
		return string(plain) + "://"
	case sentinel:
		return string(secureSentinel) + "://"
	case ofNodes:
		return string(secureNodes) + "://"
	case secureNodes:
		return string(ofNodes) + "://"
	case secureSentinel:
		if p.options.SentinelPlain && p.who == sentinelName {
			return string(secureSentinel) + ":// without Options.SentinelPlain"
		} else if p.who == sentinelName {
			return string(sentinel) + "://, or set Options.SentinelPlain if the server speaks TLS"
		}
		return string(sentinel) + "://"
	}
	return "an address that can have TLS"
}

// tlsAdvice returns the error too, perhaps with more words.
func (p *peer) tlsAdvice(err error) (advice string, longer error) {
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var handshake *handshakeError
	during := errors.As(err, &handshake)
	alert := alertOf(err)
	switch {
	case errors.As(err, &unknown):
		if p.options.CACert == "" {
			return fmt.Sprintf("this machine knows no authority that signed the %s's certificate: name a file with that authority's certificate (--cacert, $%s; Options.CACert)", p.who, EnvCACert), err
		}
		err = fmt.Errorf("checked against the certificates of %s %s: %w", p.options.caCertFrom(),
			p.options.CACert, err)
		return fmt.Sprintf("another authority signed the %s's certificate: name a file with its certificate", p.who), err
	case during && errors.Is(err, context.DeadlineExceeded):
		// A plain Redis waits for the end of what it takes for a command. The
		// text alone is kept: the caller knows that its time is over.
		return fmt.Sprintf("if the %s does not speak TLS at that port, write %s", p.who, p.otherScheme()),
			errors.New("no answer to the TLS handshake")
	case errors.As(err, &record), during && hungUp(err):
		return fmt.Sprintf("the %s does not speak TLS at that port: write %s", p.who, p.otherScheme()),
			fmt.Errorf("no TLS there: %w", err)
	case p.certs.Load() && !p.hasCert() && (alert != "" || hungUp(err)):
		return fmt.Sprintf("the %s demands a client certificate, and none was given: name its files (--cert and --key, $%s and $%s; Options.Cert and Key)", p.who, EnvCert, EnvKeyFile), err
	case p.certs.Load() && (alert != "" || hungUp(err)):
		return fmt.Sprintf("the %s does not accept the client certificate %s: check who signed it and when it expires",
			p.who, p.options.Cert), err
	}
	return "", err
}

func (p *peer) hasCert() bool {
	return len(p.tls.Certificates) > 0 || p.tls.GetClientCertificate != nil
}

// alertOf returns what the other side said when it ended TLS; "" if it said
// nothing.
func alertOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err.Error()
	}
	return ""
}

// hungUp reports that the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
