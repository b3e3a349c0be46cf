// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// open is Open for a Client that ends with the test. A busy machine may need
// long for the first reply.
func open(t *testing.T, address string, o zookeeper.Options) *lock.Client {
	t.Helper()
	o.Backend.Timeout = zktest.Patience
	c, err := zookeeper.Open(context.Background(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

// create makes a node that belongs to no session.
func create(t *testing.T, conn *zk.Conn, path string, flags int32, acl []zk.ACL) {
	t.Helper()
	if _, err := conn.Create(path, nil, flags, acl); err != nil {
		t.Fatalf("creating %s: %v", path, err)
	}
}

func TestOpenConnectsAndMakesTheChroot(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	c := open(t, "zookeeper://ann:secret@"+server.Addr+"/shop/locks", zookeeper.Options{})
	if _, _, err := conn.Children("/shop/locks"); err != zk.ErrNoAuth {
		t.Errorf("Open made no chroot of ann: %v", err)
	}
	release(t, acquire(t, c, "k"))
	if _, _, err := conn.Children("/shop/locks/k"); err != zk.ErrNoAuth {
		t.Errorf("another user reads the nodes of ann: %v", err)
	}

	closed := []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}
	create(t, conn, "/closed", 0, closed)
	for _, bad := range []struct {
		address string
		ttl     time.Duration
		words   []string
	}{
		{"zookeeper://127.0.0.1:1", 0, []string{`could not open "zookeeper://127.0.0.1:1"`, "refused"}},
		{"zookeeper://ann:secret@127.0.0.1:1", 0, []string{`could not open "zookeeper://ann:…@127.0.0.1:1"`}},
		{"zookeeper://" + server.Addr + "/closed/a", 0, []string{"/closed/a does not exist", "by hand"}},
		{"zookeeper://" + server.Addr, time.Millisecond, []string{"Config.TTL"}},
	} {
		o := zookeeper.Options{Lock: lock.Config{TTL: bad.ttl}}
		o.Backend.Timeout = zktest.Patience
		_, err := zookeeper.Open(context.Background(), bad.address, o)
		for _, word := range bad.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not say %q: %v", bad.address, word, err)
			}
		}
	}
}

func TestInspectNamesHolderWaitersAndOthers(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	ctx := context.Background()
	c := open(t, "zookeeper://"+server.Addr+"/locks",
		zookeeper.Options{Backend: zookeeper.Config{Note: "host 7"}})
	if info, err := c.Inspect(ctx, "k"); err != nil || info.Held != nil || info.Value != "" {
		t.Errorf("a lock without a node: %+v, %v", info, err)
	}
	lease := acquire(t, c, "k")
	defer release(t, lease)
	fence, _ := lease.Fence()
	acl := zk.WorldACL(zk.PermAll)
	create(t, conn, "/locks/k/0123__lock__", zk.FlagEphemeralSequential, acl)
	create(t, conn, "/locks/k/lock-", zk.FlagEphemeralSequential, acl)
	create(t, conn, "/locks/k/readme", 0, acl)
	info, err := c.Inspect(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	var held *lock.HeldError
	d := info.Detail.(*zookeeper.Info)
	if !errors.As(info.Held, &held) || held.Owner != d.Holder || !strings.HasPrefix(d.Holder, "_c_") {
		t.Errorf("held: %v, by %q", info.Held, d.Holder)
	}
	if d.Fence != fence || d.Note != "host 7" || d.Session == 0 || d.Since.IsZero() {
		t.Errorf("the holder's node: %+v", d)
	}
	if !slices.Equal(d.Waiting, []string{"0123__lock__0000000001", "lock-0000000002"}) ||
		!slices.Equal(d.Ignored, []string{"readme"}) || !slices.Equal(d.Kazoo, d.Waiting[:1]) {
		t.Errorf("other children: %+v", d)
	}
}

// ForceRelease deletes the node that was seen, and no other. The holder's lease
// ends at once.
func TestForceReleaseDeletesOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	ctx := context.Background()
	holder := client(t, lock.Config{}, server.Addr)
	c := open(t, "zookeeper://"+server.Addr+"/locks", zookeeper.Options{})
	lease := acquire(t, holder, "k")
	old, err := c.Inspect(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
	lease = acquire(t, holder, "k")
	info, err := c.Inspect(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, node, _ := strings.Cut(info.Value, " ")
	for _, value := range []string{old.Value, "", "1 " + node, "1 ../k", "free"} {
		if done, err := c.ForceRelease(ctx, "k", value); done || err != nil {
			t.Errorf("ForceRelease of %q: %t, %v", value, done, err)
		}
	}
	if lease.Err() != nil {
		t.Fatal("the wrong values ended the lease")
	}
	if done, err := c.ForceRelease(ctx, "k", info.Value); !done || err != nil {
		t.Errorf("ForceRelease: %t, %v", done, err)
	}
	select {
	case <-lease.Done():
	case <-time.After(zktest.Patience):
		t.Error("the holder does not learn that its node is gone")
	}
	if !errors.Is(lease.Err(), lock.ErrLost) {
		t.Errorf("the lease ended with %v", lease.Err())
	}
	_ = lease.Release() // the work has ended
	if done, err := c.ForceRelease(ctx, "k", info.Value); done || err != nil {
		t.Errorf("ForceRelease once more: %t, %v", done, err)
	}
	release(t, acquire(t, c, "k"))
}

func TestListFindsHeldLocks(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	conn := admin(t, server.Addr)
	ctx := context.Background()
	holder := client(t, lock.Config{}, server.Addr)
	b := newBackend(t, zookeeper.Config{Chroot: "/locks", Timeout: zktest.Patience}, server.Addr)
	defer b.Close()
	if infos, err := b.List(ctx, ""); err != nil || len(infos) != 0 {
		t.Errorf("without a chroot: %v, %v", infos, err)
	}
	for _, name := range []string{"nightly", "shop/stock", "shop/stock/1", "shop", "job-0000000001"} {
		defer release(t, acquire(t, holder, name))
	}
	release(t, acquire(t, holder, "free"))
	create(t, conn, "/locks/closed", 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	for prefix, want := range map[string][]string{
		"":       {"job-0000000001", "nightly", "shop", "shop/stock", "shop/stock/1"},
		"shop":   {"shop", "shop/stock", "shop/stock/1"},
		"shop/":  {"shop/stock", "shop/stock/1"},
		"shop/s": {"shop/stock", "shop/stock/1"},
		"n":      {"nightly"},
		"x":      nil,
	} {
		infos, err := b.List(ctx, prefix)
		var names []string
		for _, info := range infos {
			names = append(names, info.Key)
			if info.Held == nil || info.Detail.(*zookeeper.Info).Holder == "" {
				t.Errorf("%q is listed without its holder: %+v", info.Key, info)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("List(%q): %q, not %q", prefix, names, want)
		}
		if named := err != nil && strings.Contains(err.Error(), "/locks/closed"); named != (prefix == "") {
			t.Errorf("List(%q): %v", prefix, err)
		}
	}
}
