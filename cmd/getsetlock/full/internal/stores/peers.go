package stores

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/internal/bench"
)

// Names of the other libraries' locks that bench measures.
const (
	ofConcurrency = "concurrency.Mutex"
	ofGoZookeeper = "go-zookeeper Lock"
)

// mutexes measures the lock of etcd's own client. Two goroutines with one of
// its sessions would share the lock, so each acquisition borrows a session.
type mutexes struct {
	client   *clientv3.Client
	sessions chan *concurrency.Session
}

func openConcurrency(ctx context.Context, a backing.Address, o backing.Options, s bench.Server) (bench.Locker,
	error) {
	client, err := dialEtcd(ctx, a, o)
	if err != nil {
		return nil, err
	}
	m := &mutexes{client, make(chan *concurrency.Session, s.Goroutines)}
	for range s.Goroutines {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(max(2, int(s.TTL/time.Second))))
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		m.sessions <- session
	}
	return m, nil
}

func (m *mutexes) Lock(ctx context.Context, key string) (bench.Held, error) {
	session := <-m.sessions
	one := concurrency.NewMutex(session, key)
	if err := one.Lock(ctx); err != nil {
		m.sessions <- session
		return nil, err
	}
	return release(func() error {
		defer func() { m.sessions <- session }()
		return one.Unlock(context.WithoutCancel(ctx))
	}), nil
}

func (m *mutexes) Close() error {
	for range cap(m.sessions) {
		select {
		case session := <-m.sessions:
			_ = session.Close()
		default: // its goroutine still waits
		}
	}
	return m.client.Close()
}

// silent drops the library's log.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dialZookeeper makes a connection of the client library.
func dialZookeeper(a backing.Address, o backing.Options) (*zk.Conn, error) {
	password, err := o.Login(a)
	if err != nil {
		return nil, err
	}
	conn, _, err := zk.Connect(a.Servers, benchTimeout, zk.WithLogger(silent{}), zk.WithDialer(dialing(a, o)))
	if err == nil && a.User != "" {
		err = conn.AddAuth("digest", []byte(a.User+":"+password))
	}
	return conn, err
}

// dialing connects to one server, by TLS where the address asks for it.
func dialing(a backing.Address, o backing.Options) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		secure, err := o.TLS(a)
		if err != nil {
			return nil, err
		}
		if secure == nil {
			return net.DialTimeout(network, address, timeout)
		}
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, secure)
	}
}

// zkLocks measures go-zookeeper's own lock.
type zkLocks struct {
	conn   *zk.Conn
	chroot string
	acl    []zk.ACL
}

func openGoZookeeper(_ context.Context, a backing.Address, o backing.Options, _ bench.Server) (bench.Locker,
	error) {
	conn, err := dialZookeeper(a, o)
	if err != nil {
		return nil, err
	}
	l := &zkLocks{conn, a.Path, zk.WorldACL(zk.PermAll)}
	if a.User != "" {
		l.acl = zk.AuthACL(zk.PermAll)
	}
	return l, nil
}

// Lock knows no context: the library has none. A waiter that comes too late
// gives the lock back.
func (l *zkLocks) Lock(_ context.Context, key string) (bench.Held, error) {
	one := zk.NewLock(l.conn, l.chroot+"/"+key, l.acl)
	if err := one.Lock(); err != nil {
		return nil, err
	}
	return release(one.Unlock), nil
}

func (l *zkLocks) Close() error {
	l.conn.Close()
	return nil
}
