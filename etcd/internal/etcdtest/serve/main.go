// SPDX-License-Identifier: Apache-2.0

// Command serve runs one member of etcd for tests in other modules, which do
// not depend on etcd's server. It prints the member's address and ends with its
// standard input:
//
//	serve FOLDER [CERTIFICATE KEY AUTHORITY]
//
// With certificates, clients need TLS and a certificate that the authority
// signed.
package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 1 && len(args) != 4 {
		return fmt.Errorf("serve takes 1 or 4 arguments, not %d", len(args))
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync = args[0], true
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	scheme := "http"
	if len(args) == 4 {
		scheme = "https"
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = args[1], args[2]
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = args[3], true
	}
	client, err := free(scheme)
	if err != nil {
		return err
	}
	peer, err := free("http")
	if err != nil {
		return err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	member, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer member.Close()
	<-member.Server.ReadyNotify()
	fmt.Println(client.Host)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// free is a loopback address that nobody listens on.
func free(scheme string) (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer l.Close()
	return url.URL{Scheme: scheme, Host: l.Addr().String()}, nil
}
