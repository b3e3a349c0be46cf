//go:build real

package zookeeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/zookeeper/internal/zktest"
)

// A session that holds nothing asks the root for a sign of life. Where only an
// administrator may read that, the refusal is one: the ensemble commits it.
func TestSessionLivesWithoutRightsOnTheRoot(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	admin, _, err := zk.Connect([]string{server.Addr}, zktest.Patience, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.SetACL("/", zk.DigestACL(zk.PermAll, "admin", "secret"), -1); err != nil {
		t.Fatal(err)
	}
	b, err := New([]string{server.Addr}, Config{Timeout: zktest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	s, err := b.engine.session(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	zxid := func() string {
		_, after, _ := strings.Cut(b.engine.word(ctx, server.Addr, "srvr"), "Zxid: ")
		id, _, _ := strings.Cut(after, "\n")
		return id
	}
	was, began := zxid(), s.Now()
	s.Lock()
	s.trust.last.done -= gap(s.timeout) // else it follows the greeting too soon
	s.Unlock()
	if err := s.write(ctx); err != nil {
		t.Fatal(err)
	}
	s.Lock()
	last := s.trust.last.sent.Elapsed
	s.Unlock()
	if last < began {
		t.Error("it is no sign of life")
	}
	if now := zxid(); now == was || now == "" {
		t.Errorf("nothing was committed: %q", now)
	}
}
