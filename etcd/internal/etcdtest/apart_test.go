package etcdtest

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// apart is the variable that makes this program an etcd, until its input ends.
const apart = "ETCDTEST_APART"

func TestMain(m *testing.M) {
	if dir := os.Getenv(apart); dir != "" {
		if err := serveApart(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serveApart(dir string) error {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync = dir, true
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{any}, []url.URL{any}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	m, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	<-m.Server.ReadyNotify()
	fmt.Println(m.Clients[0].Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startApart starts etcd in a process of its own and returns its address.
func startApart(t testing.TB) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), apart+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
