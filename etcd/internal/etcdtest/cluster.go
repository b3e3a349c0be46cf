// SPDX-License-Identifier: Apache-2.0

// Package etcdtest starts etcd inside the process of a test: one member, or
// three that can be killed, stopped and cut off. Its own tests are those of
// package etcd. It is a module of its own, so that package etcd does not depend
// on etcd's server.
package etcdtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/getsetlock/getsetlock/internal/testing/door"
)

// Patience is how long a test waits for what must come.
const Patience = 5 * time.Minute

// Cluster is an etcd cluster in this process.
type Cluster struct {
	t       testing.TB
	cfgs    []*embed.Config
	members []*embed.Etcd // nil: in a process of its own
	apart   []*Process    // by StartApart; nil: killed
	doors   []*door.Door  // before the members' ports for each other; by StartApart
	others  []string      // addresses of a server outside this process, instead
}

// Start starts a cluster of n members and stops it at the end of the test.
// change may alter each member's Config before the start.
func Start(t testing.TB, n int, change ...func(*embed.Config)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, cfgs: make([]*embed.Config, n), members: make([]*embed.Etcd, n)}
	c.configure(change)
	c.run()
	return c
}

// config makes the Config of a member.
func (c *Cluster) config(name string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, c.t.TempDir()
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: free()}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: free()}}
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	hasten(cfg)
	return cfg
}

// configure makes the members' Configs.
func (c *Cluster) configure(change []func(*embed.Config)) {
	c.t.Helper()
	var peers []string
	for i := range c.cfgs {
		cfg := c.config(fmt.Sprintf("m%d", i))
		for _, f := range change {
			f(cfg)
		}
		peers = append(peers, cfg.Name+"="+cfg.AdvertisePeerUrls[0].String())
		c.cfgs[i] = cfg
	}
	for _, cfg := range c.cfgs {
		cfg.InitialCluster = strings.Join(peers, ",")
	}
}

// run starts every member, until the end of the test.
func (c *Cluster) run() {
	c.t.Helper()
	started := make(chan error, len(c.cfgs))
	for i := range c.cfgs {
		go func() { started <- c.start(i) }()
	}
	c.t.Cleanup(func() {
		for i := range c.apart {
			c.Kill(i)
		}
		for _, m := range c.members {
			if m != nil {
				m.Close()
			}
		}
	})
	for range c.cfgs {
		if err := <-started; err != nil {
			c.t.Fatal(err)
		}
	}
}

// addLearner starts one more member, in this process, which does not vote.
func (c *Cluster) addLearner() {
	c.t.Helper()
	cfg := c.config("learner")
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	peer := cfg.AdvertisePeerUrls[0].String()
	if _, err := c.Client().MemberAddAsLearner(ctx, []string{peer}); err != nil {
		c.t.Fatal(err)
	}
	cfg.InitialCluster = c.cfgs[0].InitialCluster + "," + cfg.Name + "=" + peer
	cfg.ClusterState = embed.ClusterStateFlagExisting
	c.cfgs, c.members = append(c.cfgs, cfg), append(c.members, nil)
	if err := c.start(len(c.cfgs) - 1); err != nil {
		c.t.Fatal(err)
	}
}

// hasten makes a member quick and silent: it loses nothing that tests keep, and
// elects a leader within a second.
func hasten(cfg *embed.Config) {
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
}

// free returns a loopback address that nobody listens on. If none is free, a
// member that starts says so.
func free() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:1"
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *Cluster) start(i int) (err error) {
	if c.apart != nil {
		c.apart[i], err = startProcess(c.cfgs[i])
		return err
	}
	m, err := embed.StartEtcd(c.cfgs[i])
	if err != nil {
		return err
	}
	c.members[i] = m
	select {
	case <-m.Server.ReadyNotify():
		return nil
	case <-time.After(Patience):
		return fmt.Errorf("member %d was not ready within %v", i, Patience)
	}
}

// Kill ends a member of StartApart at once. A member in this process cannot be
// killed: etcd's Server.HardStop closes the database below requests that are
// under way, and a request for the status then ends the process.
func (c *Cluster) Kill(i int) {
	if p := c.apart[i]; p != nil {
		p.kill()
		c.apart[i] = nil
	}
}

// Restart starts a killed member with what it had stored.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	again := *c.cfgs[i]
	again.ClusterState = embed.ClusterStateFlagExisting
	c.cfgs[i] = &again
	if err := c.start(i); err != nil {
		c.t.Error(err)
	}
}

// Leader is the index of the member that leads.
func (c *Cluster) Leader() int {
	for {
		if c.apart != nil {
			if i, ok := c.leaderApart(); ok {
				return i
			}
		}
		for i, m := range c.members {
			if m != nil && m.Server.Leader() == m.Server.MemberID() {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Endpoints are the clients' addresses of all members.
func (c *Cluster) Endpoints() []string {
	all := c.others
	for _, cfg := range c.cfgs {
		all = append(all, cfg.ListenClientUrls[0].Host)
	}
	return all
}

// Client returns a client of all members. change may alter its Config.
func (c *Cluster) Client(change ...func(*clientv3.Config)) *clientv3.Client {
	c.t.Helper()
	cfg := clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(),
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: time.Second}
	for _, f := range change {
		f(&cfg)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Keys are the keys below a prefix.
func (c *Cluster) Keys(prefix string) []string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	got, err := c.Client().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		c.t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}
