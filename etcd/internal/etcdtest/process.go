// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/getsetlock/getsetlock/internal/testing/door"
	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// orders is the variable that makes this program a member of a cluster, until
// its input ends. It holds the settings.
const orders = "ETCDTEST_MEMBER"

// Settings are the fields of an embed.Config that a member in a process of its
// own may have. Its addresses are free ones where none are given.
type Settings struct {
	Name, Dir, Client, Peer, Advertised, Initial, State string
	Quota                                               int64
	Cert, Key, Authority                                string // files, with which clients need TLS
}

// Serve makes this process a member if StartApart or Restart started it for
// that, and reports whether it did. TestMain calls it.
func Serve() bool {
	text := os.Getenv(orders)
	if text == "" {
		return false
	}
	var s Settings
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = Run(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Run runs a member, prints its address for clients, and ends with the standard
// input.
func Run(s Settings) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = cmp.Or(s.Name, cfg.Name), s.Dir
	cfg.ClusterState, cfg.QuotaBackendBytes = cmp.Or(s.State, cfg.ClusterState), s.Quota
	hasten(cfg)
	scheme := "http://"
	if s.Cert != "" {
		scheme = "https://"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = s.Cert, s.Key
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = s.Authority, true
	}
	s.Client, s.Peer = cmp.Or(s.Client, scheme+free()), cmp.Or(s.Peer, "http://"+free())
	for _, at := range []struct {
		urls *[]url.URL
		text string
	}{
		{&cfg.ListenClientUrls, s.Client}, {&cfg.AdvertiseClientUrls, s.Client},
		{&cfg.ListenPeerUrls, s.Peer}, {&cfg.AdvertisePeerUrls, cmp.Or(s.Advertised, s.Peer)},
	} {
		u, err := url.Parse(at.text)
		if err != nil {
			return err
		}
		*at.urls = []url.URL{*u}
	}
	cfg.InitialCluster = cmp.Or(s.Initial, cfg.InitialClusterFromName(cfg.Name))
	m, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	<-m.Server.ReadyNotify()
	fmt.Println(cfg.ListenClientUrls[0].Host)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Process is a member in a process of its own.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startProcess(cfg *embed.Config) (*Process, error) {
	text, err := json.Marshal(Settings{
		Name: cfg.Name, Dir: cfg.Dir, Initial: cfg.InitialCluster, State: cfg.ClusterState,
		Client: cfg.ListenClientUrls[0].String(), Peer: cfg.ListenPeerUrls[0].String(),
		Advertised: cfg.AdvertisePeerUrls[0].String(), Quota: cfg.QuotaBackendBytes,
	})
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), orders+"="+string(text))
	p.cmd.Stderr = os.Stderr
	program.Tie(p.cmd)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil && strings.TrimSpace(line) != cfg.ListenClientUrls[0].Host {
			err = fmt.Errorf("it said %q", line)
		}
		ready <- err
	}()
	select {
	case err = <-ready:
	case <-time.After(Patience):
		err = fmt.Errorf("it was not ready within %v", Patience)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("etcd in a process of its own: %w", err)
	}
	return p, nil
}

func (p *Process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.in.Close()
}

// StartApart starts a cluster of n members, each in a process of its own, which
// can be killed and stopped. A Door stands before the port where the other
// members reach each of them.
func StartApart(t testing.TB, n int, change ...func(*embed.Config)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, cfgs: make([]*embed.Config, n), members: make([]*embed.Etcd, n),
		apart: make([]*Process, n)}
	c.configure(append(change, func(cfg *embed.Config) {
		d := door.New(t, cfg.ListenPeerUrls[0].Host)
		c.doors = append(c.doors, d)
		cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: d.Addr}}
	}))
	c.run()
	return c
}

// Freeze stops the process of a member, with all its clocks and connections.
// The returned func lets it go on.
func (c *Cluster) Freeze(i int) (thaw func()) {
	p := c.apart[i].cmd.Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		c.t.Error(err)
	}
	return func() {
		if err := p.Signal(syscall.SIGCONT); err != nil {
			c.t.Error(err)
		}
	}
}

// CutOff holds back everything between a member and the others. Its clients
// still reach it. The returned func ends that.
func (c *Cluster) CutOff(i int) (heal func()) {
	status, err := c.status(i)
	if err != nil {
		c.t.Fatal(err)
	}
	id := fmt.Sprintf("%x", status.Header.MemberId)
	var heals []func()
	for j, d := range c.doors {
		if i == j {
			heals = append(heals, d.Hold(""))
		} else {
			heals = append(heals, d.Hold(id))
		}
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

func (c *Cluster) status(i int) (*clientv3.StatusResponse, error) {
	at := c.cfgs[i].ListenClientUrls[0].Host
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return client.Status(ctx, at)
}

// leaderApart asks the members. A member that was stopped or cut off may still
// call itself the leader, so the greatest term decides.
func (c *Cluster) leaderApart() (leader int, ok bool) {
	var term uint64
	for i, p := range c.apart {
		if p == nil {
			continue
		}
		status, err := c.status(i)
		if err == nil && status.Leader == status.Header.MemberId && status.RaftTerm > term {
			leader, ok, term = i, true, status.RaftTerm
		}
	}
	return leader, ok
}
