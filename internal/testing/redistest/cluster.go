// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// OnlyNode starts the only node of a cluster. Like the one endpoint of a
// managed cluster, it runs every command, but no script with keys of two slots.
func OnlyNode(t testing.TB) *Server {
	t.Helper()
	return StartCluster(t, ClusterOptions{Primaries: 1}).Primaries[0]
}

// OddKeys are names of locks with and without hash tags, whose auxiliary keys
// must lie in their slot.
var OddKeys = []string{"nightly", "app:order:7", "a{b}c", "{a}{b}", "odd}name", "a{b", "{}x"}

// ClusterOptions say how to start a Cluster.
type ClusterOptions struct {
	Path      string // of the binary. Defaults to redis-server, as found in PATH
	Primaries int    // Defaults to 3
	Replicas  bool   // a replica for each primary
	TLS       bool   // clients may use TLS, at URL; tests themselves do not
	// Patient nodes do not take a busy one for dead. Tests in which no node
	// fails want that.
	Patient bool
}

// Cluster is a real Redis Cluster of several nodes on loopback ports. Primary i
// begins with the i-th part of the slots.
type Cluster struct {
	Primaries []*Server
	Replicas  []*Server // of Primaries[i]; none if it was started without

	t     testing.TB
	o     ClusterOptions
	ids   map[*Server]string
	ca    *authority         // nil without TLS
	ports map[*Server]string // to meet by: those of TLS, if there is TLS
}

// StartCluster starts a cluster. It returns when every node
// finds the cluster in order.
func StartCluster(t testing.TB, o ClusterOptions) *Cluster {
	t.Helper()
	c := &Cluster{t: t, o: o, ids: map[*Server]string{}, ports: map[*Server]string{}}
	if o.TLS {
		c.ca = newAuthority(t, t.TempDir())
	}
	primaries := cmp.Or(o.Primaries, 3)
	for i := range primaries {
		s := c.node()
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*16384/primaries, (i+1)*16384/primaries-1)
		c.Primaries = append(c.Primaries, s)
	}
	for i := 0; o.Replicas && i < primaries; i++ {
		c.Replicas = append(c.Replicas, c.node())
	}
	c.meet(c.Nodes()[1:]...)
	for i, r := range c.Replicas {
		r.Do("CLUSTER", "REPLICATE", c.ids[c.Primaries[i]])
		r.awaitInfo("replication", "master_link_status:up")
	}
	c.awaitOrder()
	return c
}

// node starts a server that is alone in its cluster.
func (c *Cluster) node() *Server {
	c.t.Helper()
	timeout := time.Second
	if c.o.Patient {
		timeout = Patience
	}
	args := []string{"--cluster-enabled", "yes",
		"--cluster-node-timeout", fmt.Sprint(timeout.Milliseconds()), "--cluster-port", program.Port(c.t),
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}
	port := program.Port(c.t)
	if c.ca != nil {
		args = append(args, "--tls-port", port, "--tls-cluster", "yes", "--tls-auth-clients", "no")
		args = append(args, c.ca.arguments()...)
	}
	s := Real(c.t, Options{Path: c.o.Path, Args: args})
	if c.ca == nil {
		_, port, _ = strings.Cut(s.Addr(), ":")
	}
	c.ports[s] = port
	c.ids[s], _ = redis.String(s.Do("CLUSTER", "MYID"), nil)
	s.Do("CLUSTER", "SET-CONFIG-EPOCH", len(c.ids))
	return s
}

// meet makes nodes known to all others. On a busy machine one of two nodes may
// give a meeting up after a second, and then they meet again.
func (c *Cluster) meet(nodes ...*Server) {
	c.t.Helper()
	first := c.Primaries[0]
	bus, _ := redis.Strings(first.Do("CONFIG", "GET", "cluster-port"), nil)
	var again time.Time
	c.Await(func(s *Server) bool {
		if c.known(s) == len(c.ids) {
			return true
		}
		if now := time.Now(); now.After(again) {
			again = now.Add(2 * time.Second)
			for _, s := range nodes {
				s.Do("CLUSTER", "MEET", "127.0.0.1", c.ports[first], bus[1])
			}
		}
		return false
	})
}

// awaitOrder waits until every node finds the cluster in order.
func (c *Cluster) awaitOrder() {
	c.t.Helper()
	c.Await(func(s *Server) bool {
		info, _ := redis.String(s.Do("CLUSTER", "INFO"), nil)
		nodes, _ := redis.String(s.Do("CLUSTER", "NODES"), nil)
		return strings.Contains(info, "cluster_state:ok") &&
			strings.Count(nodes, "slave ")+strings.Count(nodes, "slave,") == len(c.Replicas)
	})
}

// Add adds a primary without slots.
func (c *Cluster) Add() *Server {
	c.t.Helper()
	s := c.node()
	c.Primaries = append(c.Primaries, s)
	c.meet(s)
	c.awaitOrder()
	return s
}

// Kill stores the data of all nodes, and ends all.
func (c *Cluster) Kill() {
	c.t.Helper()
	for _, s := range c.Nodes() {
		s.Do("SAVE")
	}
	for _, s := range c.Nodes() {
		s.Kill()
	}
}

// Start starts the nodes again, with what Kill stored.
func (c *Cluster) Start() {
	c.t.Helper()
	for _, s := range c.Nodes() {
		s.Start()
	}
	c.awaitOrder()
}

// known returns how many nodes s knows and has met.
func (c *Cluster) known(s *Server) int {
	nodes, _ := redis.String(s.Do("CLUSTER", "NODES"), nil)
	return strings.Count(nodes, " connected")
}

// Nodes returns all servers, primaries first.
func (c *Cluster) Nodes() []*Server { return slices.Concat(c.Primaries, c.Replicas) }

// Await asks nodes until holds is true of each. Without nodes it asks all.
func (c *Cluster) Await(holds func(s *Server) bool, nodes ...*Server) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Nodes()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	for _, s := range nodes {
		for !holds(s) {
			select {
			case <-ctx.Done():
				c.t.Fatalf("redistest: the cluster did not come to what was awaited; the log of %s:\n%s", s.Addr(),
					s.Log())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// URL returns the cluster's address as the command takes it.
func (c *Cluster) URL() string { return c.URLFor("") }

// URLFor is URL with this text before the hosts, such as a user.
func (c *Cluster) URLFor(user string) string {
	var hosts []string
	for _, s := range c.Primaries {
		hosts = append(hosts, "127.0.0.1:"+c.ports[s])
	}
	scheme := "redis"
	if c.ca != nil {
		scheme = "rediss"
	}
	return scheme + "+cluster://" + user + strings.Join(hosts, ",")
}

// CACert returns the file with the certificate of the nodes' authority.
func (c *Cluster) CACert() string { return c.ca.root }

// Owner returns the primary that serves the slot of key, by what it says.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()
	s := c.owner(key)
	if s == nil {
		c.t.Fatalf("redistest: no primary serves %q", key)
	}
	return s
}

// AwaitOwner waits until a node other than the dead one serves the slot of key,
// and all others know that.
func (c *Cluster) AwaitOwner(key string, dead *Server) {
	c.t.Helper()
	for _, s := range c.Nodes() {
		c.Await(func(s *Server) bool {
			now := c.owner(key)
			if s == dead || now == s {
				return s == dead || now != nil
			}
			conn := s.Pool().Get()
			defer conn.Close()
			_, err := conn.Do("GET", key)
			return now != nil && err != nil && strings.HasSuffix(err.Error(), " "+now.Addr())
		}, s)
	}
}

func (c *Cluster) owner(key string) *Server {
	for _, s := range c.Nodes() {
		conn := s.Pool().Get()
		_, err := conn.Do("GET", key)
		conn.Close()
		if err == nil || strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return s
		}
	}
	return nil
}

// Slot returns the slot of key.
func (c *Cluster) Slot(key string) int {
	n, _ := redis.Int(c.Primaries[0].Do("CLUSTER", "KEYSLOT", key), nil)
	return n
}

// Begin begins to move a slot. Nothing has moved yet.
func (c *Cluster) Begin(slot int, from, to *Server) {
	c.t.Helper()
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
}

// Carry moves keys of a slot that is moving.
func (c *Cluster) Carry(from, to *Server, keys ...string) {
	c.t.Helper()
	from.Do("MIGRATE", redis.Args{"127.0.0.1", c.ports[to], "", 0, 5000, "KEYS"}.AddFlat(keys)...)
}

// Finish moves the rest of a slot, and assigns it.
func (c *Cluster) Finish(slot int, from, to *Server) {
	c.t.Helper()
	for {
		keys, _ := redis.Strings(from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100), nil)
		if len(keys) == 0 {
			break
		}
		c.Carry(from, to, keys...)
	}
	for _, s := range []*Server{to, from} {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", c.ids[to])
	}
}

// Move moves a slot with its keys.
func (c *Cluster) Move(slot int, from, to *Server) {
	c.t.Helper()
	c.Begin(slot, from, to)
	c.Finish(slot, from, to)
}

// MoveAtomically moves slots and their keys in one step, which the servers do
// by themselves. It returns false if they cannot.
func (c *Cluster) MoveAtomically(first, last int, from, to *Server) bool {
	c.t.Helper()
	conn := from.Pool().Get()
	defer conn.Close()
	_, err := conn.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", c.ids[to])
	if err != nil && strings.Contains(err.Error(), "unknown subcommand") {
		return false
	}
	if err != nil {
		c.t.Fatalf("redistest: %v", err)
	}
	c.Await(func(*Server) bool {
		jobs, _ := redis.Values(from.Do("CLUSTER", "GETSLOTMIGRATIONS"), nil)
		text := fmt.Sprintf("%s", jobs)
		if strings.Contains(text, "failed") {
			c.t.Fatalf("redistest: slots %d to %d did not move: %s", first, last, text)
		}
		return strings.Count(text, "success") == len(jobs)
	}, from)
	return true
}
