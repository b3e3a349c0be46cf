// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// backend returns a Backend as another process would have.
func (c *Cluster) backend(change ...func(*clientv3.Config)) *etcd.Backend {
	c.t.Helper()
	b, err := etcd.New(c.Client(change...), etcd.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// seize deletes the holder's key and writes that of another client in its
// place, as no correct client does.
func seize(t *testing.T, client *clientv3.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	first, err := client.Get(ctx, name+"/", clientv3.WithFirstCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	var ops []clientv3.Op
	for _, kv := range first.Kvs {
		ops = append(ops, clientv3.OpDelete(string(kv.Key)))
	}
	ops = append(ops, clientv3.OpPut(name+"/thief", ""))
	if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
		t.Fatal(err)
	}
}

// With $ETCD_ENDPOINTS the kit runs on a server of another version.
func TestBackendPassesTheKit(t *testing.T) {
	t.Parallel()
	var c *Cluster
	if other := os.Getenv("ETCD_ENDPOINTS"); other != "" {
		c = &Cluster{t: t, others: strings.Split(other, ",")}
	} else {
		c = Start(t, 1)
	}
	client := c.Client()
	locktest.Run(t, locktest.Traits{Session: true}, func(t *testing.T) *locktest.World {
		if _, err := client.Delete(context.Background(), "locktest:", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		cuts := map[backend.Store]*Cut{}
		return &locktest.World{
			Backend: func() backend.Store {
				cut := new(Cut)
				b := c.backend(cut.Into)
				cuts[b] = cut
				return b
			},
			Pass: time.Sleep,
			// etcd looks for leases that are over twice a second. The Backend
			// looks for abandoned keys twelve times a TTL.
			TTL: 2 * time.Second, FreeAfter: 1500 * time.Millisecond,
			RealTime: true,
			Seize:    func(key string) { seize(t, client, key) },
			Cut: func(b backend.Store) func() {
				cuts[b].On.Store(true)
				return func() { cuts[b].On.Store(false) }
			},
		}
	})
	var left []string
	for _, key := range c.Keys("") {
		if !strings.HasSuffix(key, "/thief") {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
