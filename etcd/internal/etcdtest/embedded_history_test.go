//go:build !real

package etcdtest

import (
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock"
)

// With the build tag real, TestHistoriesUnderKillsFitALock does this and more
// with members in processes of their own.
func TestHistoriesUnderFaultsFitALock(t *testing.T) {
	t.Parallel()
	f := &fight{c: StartApart(t, 3), h: newContest(), seed: rand.Uint64()}
	for i := range 4 {
		// Each client speaks to one member first, the last to all.
		l, err := lock.New(f.c.backend(func(cfg *clientv3.Config) {
			if i < 3 {
				cfg.Endpoints = append(cfg.Endpoints[i:i+1:i+1], cfg.Endpoints...)
			}
		}), lock.Config{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		f.clients = append(f.clients, l)
	}
	f.suffer(t, f.c.kills(t, f.c.Client()), 1)
}
