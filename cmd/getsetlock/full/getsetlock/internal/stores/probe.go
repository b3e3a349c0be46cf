// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
)

// probe finds out why etcd does not answer. The library tries again until the
// time is over, and then says only that it is.
type probe struct {
	address backing.Address
	options backing.Options
}

// advice returns one clause that says what to do about an error, or nothing
// where the error says so itself.
func (p *probe) advice(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "(check "), strings.Contains(text, "(grant "),
		strings.Contains(text, "(etcd "):
		return "" // see package etcd
	case strings.Contains(text, "authentication failed"):
		return "check user and password"
	case strings.Contains(text, "user name is empty"):
		return "etcd wants a user and a password: write etcd://user@host:port, and give the password by --password-file"
	case strings.Contains(text, "permission denied"):
		return "give the user the right to read these keys, or name a KEY or PATTERN that begins with what the user may read"
	case codeOf(err) == codes.Unavailable, codeOf(err) == codes.DeadlineExceeded,
		errors.Is(err, context.DeadlineExceeded):
		return p.find()
	}
	return ""
}

// probing bounds the look at all servers.
const probing = 2 * time.Second

// find asks each server for its version, by HTTP at the same port, as etcd
// answers it.
func (p *probe) find() string {
	ctx, cancel := context.WithTimeout(context.Background(), probing)
	defer cancel()
	secure, err := p.options.TLS(p.address)
	if err != nil {
		return err.Error()
	}
	scheme := "http"
	if p.address.TLS {
		scheme = "https"
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	found := make(chan string, len(p.address.Servers))
	for _, server := range p.address.Servers {
		go func() { found <- p.ask(ctx, client, scheme, server) }()
	}
	said := ""
	for range p.address.Servers {
		if said = <-found; said == noLeader {
			break
		}
	}
	return said
}

const noLeader = "etcd runs there and does not answer in time: has it a leader?"

// ask says what one server answered.
func (p *probe) ask(ctx context.Context, client *http.Client, scheme, server string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+server+"/version", nil)
	if err != nil {
		return fmt.Sprintf("the server %s cannot be asked: %v", server, err)
	}
	reply, err := client.Do(req)
	_, refused := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		defer reply.Body.Close()
		if reply.StatusCode == http.StatusOK && strings.Contains(reply.Header.Get("Content-Type"), "json") {
			return noLeader
		}
		return fmt.Sprintf("the server at %s is no etcd: check host and port", server)
	case ctx.Err() != nil:
		return fmt.Sprintf("%s does not answer: check host and port, firewalls, and the server's load", server)
	case badCertificate(err.Error()):
		return fmt.Sprintf(
			"%v: name a file with the certificate of the authority that signed the server's (--cacert)",
			errors.Unwrap(err))
	case strings.Contains(err.Error(), "first record does not look like a TLS handshake"),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Sprintf("%s does not speak TLS: write etcd://", server)
	case refused && errors.Unwrap(err) != nil:
		return fmt.Sprintf("%s cannot be reached (%v): check host and port, and whether etcd runs", server,
			errors.Unwrap(err))
	}
	return foreign(server, "etcd", p.address)
}

// foreign says that a server does not answer as a store does.
func foreign(server, store string, a backing.Address) string {
	if a.TLS {
		return fmt.Sprintf(
			"the server at %s is no %s, or it does not speak TLS: check host and port, or write %s://",
			server, store, a.Scheme)
	}
	return fmt.Sprintf("the server at %s is no %s, or it wants TLS: check host and port, or write %s://",
		server,
		store, a.Secure())
}

// quiet says that a server accepts connections and sends nothing.
func quiet(server, store string, a backing.Address) string {
	if a.TLS {
		return fmt.Sprintf(
			"the server at %s is silent: it is stopped or overloaded, or is no %s: check host and port",
			server, store)
	}
	return fmt.Sprintf(
		"the server at %s is silent: it is stopped or overloaded, is no %s, or wants TLS: check host and port, or write %s://",
		server, store, a.Secure())
}

// dial connects to one server, by TLS where the address asks for it.
func (p *probe) dial(server string) (net.Conn, error) {
	secure, err := p.options.TLS(p.address)
	switch {
	case err != nil:
		return nil, err
	case secure == nil:
		return net.DialTimeout("tcp", server, probing)
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: probing}, "tcp", server, secure)
}

// greets asks a server of ZooKeeper what it is, as an administrator does. It
// returns what to do where the server answers otherwise. A ZooKeeper that may
// not say it names the list of allowed words.
func (p *probe) greets(server string) string {
	conn, err := p.dial(server)
	if err != nil {
		return "" // package zookeeper says why
	}
	defer conn.Close()
	until, cancel := context.WithTimeout(context.Background(), probing)
	defer cancel()
	by, _ := until.Deadline()
	_ = conn.SetDeadline(by)
	_, _ = conn.Write([]byte("srvr"))
	said, err := io.ReadAll(io.LimitReader(conn, 1<<12))
	switch text := string(said); {
	case strings.Contains(text, "not currently serving"):
		return server + " runs and does not serve: are more than half of the servers up?"
	case strings.Contains(text, "ookeeper"), strings.Contains(text, "ooKeeper"),
		strings.Contains(text, "whitelist"):
		return ""
	}
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() && len(said) == 0 {
		return quiet(server, "ZooKeeper", p.address)
	}
	return foreign(server, "ZooKeeper", p.address)
}
