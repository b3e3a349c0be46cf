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

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/target"
	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/internal/bench"
)

const ofEtcd = "getsetlock, etcd"

func etcdStore() target.Store {
	return target.Store{
		Name: "etcd", Port: "2379", Open: openEtcd, Base: ofConcurrency,
		Adapters: []bench.Adapter{
			adapter(ofConcurrency, func() target.Store { return target.Store{Port: "2379"} },
				openConcurrency),
			adapter(ofEtcd, func() target.Store { return target.Store{Port: "2379"} },
				func(ctx context.Context, a target.Address, o target.Options, s bench.Server) (bench.Locker,
					error) {
					conn, err := openEtcd(ctx, a, o)
					return newOurs(conn, err, s)
				}),
		},
	}
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
func openEtcd(ctx context.Context, a target.Address, o target.Options) (target.Conn, error) {
	client, err := dialEtcd(ctx, a, o)
	if err != nil {
		return nil, err
	}
	b, err := etcd.New(client, etcd.Config{Note: o.Note, Timeout: o.Timeout, Clock: o.Clock})
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &etcdConn{client, b, o.Timeout, &probe{a, o}}, nil
}

func dialEtcd(ctx context.Context, a target.Address, o target.Options) (*clientv3.Client, error) {
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

func (c *etcdConn) Backend() target.Backend { return c.backend }

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
// number to further keys of one process.
func lockKey(kv *mvccpb.KeyValue) (name, id string, ok bool) {
	at := strings.LastIndexByte(string(kv.Key), '/')
	if at < 1 || kv.Lease == 0 {
		return "", "", false
	}
	name, id = string(kv.Key[:at]), string(kv.Key[at+1:])
	number, _, _ := strings.Cut(id, ".")
	return name, id, number == strconv.FormatInt(kv.Lease, 16)
}

// pageOfKeys bounds one answer of etcd, which holds no other client up for
// long.
const pageOfKeys = 1000

// keys calls each for every key of the lock protocol that begins with prefix,
// until it returns false. Values are left out.
func (c *etcdConn) keys(ctx context.Context, prefix string,
	each func(name, id string, kv *mvccpb.KeyValue) bool) error {
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
		for _, kv := range got.Kvs {
			if name, id, ok := lockKey(kv); ok && !each(name, id, kv) {
				return nil
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// Unfit refuses a name while another name of which it is a path prefix is
// held, or one that is a path prefix of it: such names share their keys.
func (c *etcdConn) Unfit(ctx context.Context, name string) (string, error) {
	longer, shorter := "", ""
	err := c.keys(ctx, name+"/", func(other, _ string, _ *mvccpb.KeyValue) bool {
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
		_ = c.keys(ctx, name[:at]+"/", func(other, _ string, _ *mvccpb.KeyValue) bool {
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
	target.Lock
	key   string // of the holder
	rev   int64
	lease clientv3.LeaseID
	keys  int64
}

// Look finds the key with the least create revision.
func (c *etcdConn) Look(ctx context.Context, name string) (*target.Lock, error) {
	found, err := c.find(ctx, name+"/", func(other string) bool { return other == name })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (c *etcdConn) List(ctx context.Context, prefix string) ([]target.Lock, error) {
	return c.find(ctx, prefix, func(string) bool { return true })
}

// find returns the locks whose keys begin with prefix and whose names fit.
func (c *etcdConn) find(ctx context.Context, prefix string, fits func(name string) bool) ([]target.Lock,
	error) {
	all := map[string]*queued{}
	err := c.keys(ctx, prefix, func(name, _ string, kv *mvccpb.KeyValue) bool {
		if !fits(name) {
			return true
		}
		q := all[name]
		if q == nil {
			q = &queued{}
			all[name] = q
		}
		q.keys++
		if q.rev == 0 || kv.CreateRevision < q.rev {
			q.rev, q.key, q.lease, q.Name = kv.CreateRevision, string(kv.Key), clientv3.LeaseID(kv.Lease),
				name
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	left := map[clientv3.LeaseID]time.Duration{}
	var found []target.Lock
	for _, q := range all {
		there, err := c.holder(ctx, q, left)
		if err != nil {
			return nil, err
		}
		if there {
			found = append(found, q.Lock)
		}
	}
	slices.SortFunc(found, func(a, b target.Lock) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// holder reads the rest of what is known of the holder. It returns false if the
// holder has gone meanwhile.
func (c *etcdConn) holder(ctx context.Context, q *queued, left map[clientv3.LeaseID]time.Duration) (bool,
	error) {
	got, err := c.get(ctx, q.key)
	if err != nil || len(got.Kvs) == 0 || got.Kvs[0].CreateRevision != q.rev {
		return false, err
	}
	if _, asked := left[q.lease]; !asked {
		left[q.lease] = c.left(ctx, q.lease)
	}
	q.Type, q.Waiters, q.Fence, q.Left = "key", q.keys-1, q.rev, left[q.lease]
	q.Value = strconv.FormatInt(q.rev, 10) + " " + q.key
	q.Owner = q.key[len(q.Name)+1:]
	nonce, note, _ := strings.Cut(string(got.Kvs[0].Value), " ")
	if len(nonce) == lengthOfNonce {
		q.Owner, q.Note = nonce, note
	}
	return true, nil
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
	return c.backend.ForceRelease(ctx, name, value)
}

// Clean leaves all to the leases, with which the keys end.
func (c *etcdConn) Clean(context.Context, string) error { return nil }

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
