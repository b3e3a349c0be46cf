// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Describe looks at the key that holds the lock. Info.Value is its create
// revision and its name.
func (b *engine) Describe(ctx context.Context, name string) (backend.Info, error) {
	call, cancel := b.call(ctx)
	defer cancel()
	got, err := b.client.Get(call, name+"/", append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())...)
	if err != nil {
		return backend.Info{}, trouble("look at", name, err)
	}
	info := backend.Info{Key: name}
	if len(got.Kvs) > 0 {
		key := string(got.Kvs[0].Key)
		info.Held = held(name, key, key)
		info.Value = strconv.FormatInt(got.Kvs[0].CreateRevision, 10) + " " + key
	}
	return info, nil
}

// ForceRelease deletes the key that Describe found, unless it was
// deleted since.
func (b *engine) ForceRelease(ctx context.Context, name, value string) (bool, error) {
	number, key, _ := strings.Cut(value, " ")
	rev, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !strings.HasPrefix(key, name+"/") {
		return false, nil // no key of this name had such a value
	}
	call, cancel := b.call(ctx)
	defer cancel()
	done, err := b.client.Txn(call).If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
		Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return false, trouble("free", name, err)
	}
	return done.Succeeded, nil
}
