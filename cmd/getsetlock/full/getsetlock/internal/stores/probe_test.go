// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
)

// A stopped process still accepts connections. Nobody knows what it is.
func TestSilentServerIsNotCalledForeign(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := l.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p := &probe{address: backing.Address{Scheme: "etcd", Servers: []string{server}}}
	if said := p.ask(ctx, http.DefaultClient, "http", server); said !=
		server+" does not answer: check host and port, firewalls, and the server's load" {
		t.Error(said)
	}
	p.address.Scheme = "zookeeper"
	if said := p.greets(server); !strings.HasPrefix(said, "the server at "+server+" is silent: ") ||
		!strings.Contains(said, "write zookeepers://") {
		t.Error(said)
	}
	p.address.TLS = true
	if said := quiet(server, "ZooKeeper", p.address); strings.Contains(said, "://") {
		t.Error(said)
	}
}
