// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/getsetlock/getsetlock/internal/sessions"
)

// leastMinor is the oldest minor version of etcd 3 that gives watches the
// numbers that a client asks for.
const leastMinor = 4

// repaired are the first patch versions, by minor version of etcd 3, in which a
// revoked lease is not renewed, and a leader whose clock stood still asks the
// others before it revokes leases. docs/guide/clocks.md says what is left of
// that.
var repaired = map[int]int{4: 38, 5: 23, 6: 5}

// tooOld reports whether locks cannot work with a server of this version.
func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 3 || major == 3 && minor < leastMinor)
}

// grantsTwice reports whether a server of this version may grant a lock twice,
// and in which version of the same minor that is repaired.
func grantsTwice(version string) (since string, may bool) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 || major != 3 {
		return "", false
	}
	first, known := repaired[minor]
	return fmt.Sprintf("3.%d.%d", minor, first), known && patch < first
}

// statusWait bounds one question for a server's version.
const statusWait = 5 * time.Second

// nameServers asks each server for its version, and warns of those that are too
// old, once of a server with several addresses. A server that does not answer
// is left out.
func (b *engine) nameServers() {
	seen := map[uint64]bool{} // by the server's number in the cluster
	for _, at := range b.client.Endpoints() {
		ctx, cancel := context.WithTimeout(b.Life, statusWait)
		said, err := b.client.Status(ctx, at)
		cancel()
		if err != nil {
			continue
		}
		id := said.Header.GetMemberId() // 0: it tells none
		if id != 0 && seen[id] {
			continue
		}
		seen[id] = true
		if since, may := grantsTwice(said.Version); may {
			b.cfg.Logger.Warn("this etcd server may grant a lock twice, since it may renew a lease that was revoked; upgrade it",
				"server", at, "version", said.Version, "repaired in", since)
		} else if tooOld(said.Version) {
			b.cfg.Logger.Warn("this etcd server is too old for locks; upgrade it", "server", at, "version",
				said.Version, "needed", fmt.Sprintf("3.%d", leastMinor))
		}
	}
}

// modernEnough returns an error if the server that answers is too old for
// locks. It asks until one server has answered.
func (b *engine) modernEnough(ctx context.Context) error {
	b.Lock()
	known := b.modern
	b.Unlock()
	if known {
		return nil
	}
	version, err := b.status(ctx)
	switch {
	case err != nil:
		return nil // what follows will say what is wrong
	case tooOld(version):
		return &sessions.Trouble{Text: fmt.Sprintf("etcd: could not use %q", b.client.Endpoints()),
			Err: fmt.Errorf("it runs etcd %s; locks need 3.%d or later: upgrade it", version, leastMinor)}
	}
	b.Lock()
	b.modern = true
	b.Unlock()
	return nil
}

// status asks one server for its version, without trying again. So its error
// says why there is no connection.
func (b *engine) status(ctx context.Context) (version string, err error) {
	call, cancel := context.WithTimeout(ctx, min(b.cfg.Timeout, time.Second))
	defer cancel()
	said, err := etcdserverpb.NewMaintenanceClient(b.client.ActiveConnection()).
		Status(call, &etcdserverpb.StatusRequest{})
	if err != nil {
		return "", err
	}
	return said.Version, nil
}

// unreachable returns the error of an Open that got no answer. err says why.
func unreachable(endpoints []string, secured bool, err error) error {
	if answer, ok := status.FromError(err); ok && answer.Code() == codes.Unavailable {
		err = errors.New(answer.Message())
	}
	text := "is each of them etcd's address for clients?"
	if secured {
		text = "is each of them etcd's address for clients, and does etcd ask for a certificate of your own?"
	}
	switch reason := err.Error(); {
	case strings.Contains(reason, "first record does not look like a TLS handshake"),
		strings.Contains(reason, "handshake failed: EOF"):
		text = "this server does not answer in TLS; if it has none, write http:// instead of https://"
	case strings.Contains(reason, "tls: "), strings.Contains(reason, "x509: "):
		text = "check Options.Client.TLS: the authority that signed etcd's certificate, and a certificate of your own if etcd asks for one"
	case strings.Contains(reason, "server preface"):
		text = "this server does not speak etcd's protocol; if it is an etcd that wants TLS, write https:// and set Options.Client.TLS"
	}
	return &sessions.Trouble{Text: fmt.Sprintf("etcd: could not open %q (%s)", endpoints, text), Err: err,
		Passes: true, Replied: said(err)}
}
