// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func etcdStore() backing.Store {
	return backing.Store{Name: "etcd", Port: "2379", Open: openEtcd}
}

// etcdConn is a connection to etcd.
type etcdConn struct {
	client  *clientv3.Client
	backend *etcd.Backend
	timeout time.Duration
	probe   *probe
}

// openEtcd makes a client. With a user, the client logs in at once; without
// one it sends nothing.
func openEtcd(ctx context.Context, a backing.Address, o backing.Options) (backing.Conn, error) {
	client, err := dialEtcd(ctx, a, o)
	if err != nil {
		return nil, err
	}
	b, err := etcd.New(client, etcd.Config{Note: o.Note, Timeout: o.Timeout, Clock: o.Clock,
		Logger: o.Logger})
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &etcdConn{client, b, o.Timeout, &probe{a, o}}, nil
}

func dialEtcd(ctx context.Context, a backing.Address, o backing.Options) (*clientv3.Client, error) {
	password, err := o.Login(a)
	if err != nil {
		return nil, err
	}
	secure, err := o.TLS(a)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: a.Servers, TLS: secure, Username: a.User, Password: password,
		DialTimeout: o.Timeout, DialKeepAliveTime: 7 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Context: context.WithoutCancel(ctx), Logger: zap.NewNop(),
	})
	if err != nil {
		passes := !answered(err)
		if advice := (&probe{a, o}).advice(err); advice != "" {
			err = fmt.Errorf("%w; %s", err, advice)
		}
		return nil, &storeError{err, passes}
	}
	return client, nil
}

func (c *etcdConn) Backend() backend.Store { return c.backend }

func (c *etcdConn) Close() error { return errors.Join(c.backend.Close(), c.client.Close()) }

// get reads keys and bounds the wait for the answer.
func (c *etcdConn) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse,
	error) {
	call, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), c.timeout)
	defer cancel()
	got, err := c.client.Get(call, key, opts...)
	if err != nil {
		return nil, &storeError{err, !answered(err)}
	}
	return got, nil
}

// lockKey splits a key of the lock protocol: the lock's name, a slash, and the
// number of the key's own lease in hexadecimal. getsetlock adds a dot and a
// number to further keys of one process. The lease is 0 where a key is none of
// the lock protocol.
func lockKey(key string) (name string, lease int64) {
	at := strings.LastIndexByte(key, '/')
	if at < 1 {
		return "", 0
	}
	number, _, _ := strings.Cut(key[at+1:], ".")
	lease, err := strconv.ParseInt(number, 16, 64)
	if err != nil || number != strconv.FormatInt(lease, 16) {
		return "", 0
	}
	return key[:at], lease
}

const (
	// pageOfKeys bounds one answer of etcd, so that other clients need not wait
	// for long.
	pageOfKeys = 1000

	// mostInTxn is how many reads one transaction has; etcd takes 128 by
	// default.
	mostInTxn = 100
)

// keys calls each for every key of the lock protocol that begins with prefix,
// until it returns false. It reads the names of all keys, and the values of
// those that look like locks: a newer etcd leaves out the lease of a key where
// the value is not asked for.
func (c *etcdConn) keys(ctx context.Context, prefix string,
	each func(name string, kv *mvccpb.KeyValue) bool) error {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		from, end = "\x00", "\x00" // every key
	}
	for {
		got, err := c.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageOfKeys),
			clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		var likely []string
		for _, kv := range got.Kvs {
			if _, lease := lockKey(string(kv.Key)); lease != 0 {
				likely = append(likely, string(kv.Key))
			}
		}
		for some := range slices.Chunk(likely, mostInTxn) {
			kvs, err := c.read(ctx, some)
			if err != nil {
				return err
			}
			for _, kv := range kvs {
				if name, lease := lockKey(string(kv.Key)); lease == kv.Lease && !each(name, kv) {
					return nil
				}
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// read returns those of the keys that exist.
func (c *etcdConn) read(ctx context.Context, keys []string) (found []*mvccpb.KeyValue, err error) {
	call, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), c.timeout)
	defer cancel()
	var gets []clientv3.Op
	for _, key := range keys {
		gets = append(gets, clientv3.OpGet(key))
	}
	got, err := c.client.Txn(call).Then(gets...).Commit()
	if err != nil {
		return nil, &storeError{err, !answered(err)}
	}
	for _, reply := range got.Responses {
		found = append(found, reply.GetResponseRange().Kvs...)
	}
	return found, nil
}

// Longest is any TTL: etcd bounds a lease at centuries.
func (c *etcdConn) Longest(_ context.Context, ttl time.Duration) (time.Duration, error) {
	return ttl, nil
}

// Unfit refuses a name while another name of which it is a path prefix is
// held, or one that is a path prefix of it: such names share their keys.
func (c *etcdConn) Unfit(ctx context.Context, name string) (string, error) {
	longer, shorter := "", ""
	err := c.keys(ctx, name+"/", func(other string, _ *mvccpb.KeyValue) bool {
		if other != name {
			longer = other
		}
		return longer == ""
	})
	if longer != "" {
		return fmt.Sprintf("%q is a path prefix of the name %q, which is held: in etcd the two would share their keys; rename one of them",
			name, longer), nil
	}
	for at := strings.LastIndexByte(name, '/'); at > 0 && err == nil; at = strings.LastIndexByte(name[:at],
		'/') {
		looked := 0
		// A user without rights to the shorter name learns nothing, and that is
		// no trouble.
		_ = c.keys(ctx, name[:at]+"/", func(other string, _ *mvccpb.KeyValue) bool {
			if other == name[:at] {
				shorter = other
			}
			looked++
			return shorter == "" && looked < pageOfKeys
		})
		if shorter != "" {
			return fmt.Sprintf("the name %q, which is held, is a path prefix of %q: in etcd the two would share their keys; rename one of them",
				shorter, name), nil
		}
	}
	return "", err
}

// queued are the keys of one lock.
type queued struct {
	holder *mvccpb.KeyValue // with the least create revision
	keys   int64
}

// Look finds the key with the least create revision.
func (c *etcdConn) Look(ctx context.Context, name string) (*backing.Lock, error) {
	found, err := c.find(ctx, name+"/", func(other string) bool { return other == name })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (c *etcdConn) List(ctx context.Context, prefix string) ([]backing.Lock, error) {
	return c.find(ctx, prefix, func(string) bool { return true })
}

// find returns the locks whose keys begin with prefix and whose names fit.
func (c *etcdConn) find(ctx context.Context, prefix string,
	fits func(name string) bool) ([]backing.Lock, error) {
	all := map[string]*queued{}
	err := c.keys(ctx, prefix, func(name string, kv *mvccpb.KeyValue) bool {
		if !fits(name) {
			return true
		}
		q := all[name]
		if q == nil {
			q = &queued{holder: kv}
			all[name] = q
		}
		q.keys++
		if kv.CreateRevision < q.holder.CreateRevision {
			q.holder = kv
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	left := map[int64]time.Duration{}
	var found []backing.Lock
	for name, q := range all {
		if _, asked := left[q.holder.Lease]; !asked {
			left[q.holder.Lease] = c.left(ctx, clientv3.LeaseID(q.holder.Lease))
		}
		found = append(found, q.lock(name, left[q.holder.Lease]))
	}
	return found, nil
}

// lock describes the lock of these keys.
func (q *queued) lock(name string, left time.Duration) backing.Lock {
	key, rev := string(q.holder.Key), q.holder.CreateRevision
	l := backing.Lock{Name: name, Type: "key", Owner: key[len(name)+1:],
		Value: strconv.FormatInt(rev, 10) + " " + key, Waiters: q.keys - 1, Fence: rev, Left: left}
	nonce, note, _ := strings.Cut(string(q.holder.Value), " ")
	if len(nonce) == lengthOfNonce {
		l.Owner, l.Note = nonce, note
	}
	return l
}

// lengthOfNonce is that of the values of getsetlock's keys. Other clients store
// nothing, or a short text.
const lengthOfNonce = 26

// left asks how long a lease lasts without renewal; negative: unknown.
func (c *etcdConn) left(ctx context.Context, id clientv3.LeaseID) time.Duration {
	call, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got, err := c.client.TimeToLive(call, id)
	if err != nil || got.TTL < 0 {
		return -1
	}
	return time.Duration(got.TTL) * time.Second
}

func (c *etcdConn) Free(ctx context.Context, name, value string) (bool, error) {
	return c.backend.Contract().(backend.Inspector).ForceRelease(ctx, name, value)
}

func (c *etcdConn) Advice(err error) string { return c.probe.advice(err) }

// answered reports whether etcd itself said err.
func answered(err error) bool {
	_, said := errors.AsType[rpctypes.EtcdError](err)
	return said
}

func codeOf(err error) codes.Code {
	if said, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return said.Code()
	}
	return status.Code(err)
}
