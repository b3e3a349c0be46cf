// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// The server refuses to publish the message, so nobody hears of a gift.
func TestKeyIsFreeWhereMessagesAreRefused(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	mute := openOn(t, urlPool(s.User("mute", "pw", "~*", "resetchannels", "+@all")), modern.Config{})
	b := openOn(t, s.Pool(), modern.Config{})
	holder := try(t, mute, "k")
	p := stand(t, b, "k")
	free(t, holder)
	if value, err := redis.String(s.Do("GET", "k"), nil); err != redis.ErrNil {
		t.Errorf("the key holds %q, %v", value, err)
	}
	granted(t, p)
	redistest.NoKeys(t, s.Pool())
}

// A user without PUBSUB counts listeners by an empty message.
func TestGiftReachesWaitersThatMayNotBeCounted(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Options{})
			b := openOn(t, urlPool(s.User("u", "pw", "~*", "&*", "+@all", "-pubsub")), cfg)
			holder := try(t, b, "k")
			p := stand(t, b, "k")
			free(t, holder)
			value, err := redis.String(s.Do("GET", "k"), nil)
			if err != nil {
				t.Fatal(err)
			}
			g := got(t, p)
			if value != g.Token() {
				t.Errorf("after the release the key held %q, not the waiter's %q", value, g.Token())
			}
			free(t, g)
		})
	}
}

// A gift is one message, where the server says who listens.
func TestGiftIsOneMessage(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Options{})
			b := openOn(t, s.Pool(), cfg)
			c := s.Pool().Get()
			defer c.Close()
			ears := redis.PubSubConn{Conn: c}
			if err := ears.PSubscribe("gsl:turn:*"); err != nil {
				t.Fatal(err)
			}
			ears.Receive() // that it has subscribed
			holder := try(t, b, "k")
			p := stand(t, b, "k")
			free(t, holder)
			g := got(t, p)
			if m, ok := ears.Receive().(redis.Message); !ok || !strings.Contains(string(m.Data), g.Token()) {
				t.Errorf("before its message the waiter got %q", m.Data)
			}
			free(t, g)
		})
	}
}

// Servers before Redis 5 send scripts to replicas and write them into the AOF.
// There no subscriber hears anything.
func TestReplicaAndAOFHaveTheGift(t *testing.T) {
	onReplicas(t, func(t *testing.T, s *redistest.Server, b *modern.Backend) backend.Grant {
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		free(t, holder)
		return got(t, p)
	})
}

// The second waiter finds a free key and calls the first. On a replica the
// first does not seem to listen, and yet the key is not the second's.
func TestReplicaAndAOFOfferTheKeyToNobodyElse(t *testing.T) {
	onReplicas(t, func(t *testing.T, s *redistest.Server, b *modern.Backend) backend.Grant {
		try(t, b, "k")
		first, second := stand(t, b, "k"), stand(t, b, "k")
		s.Do("DEL", "k")
		if g, err := second.Try(bg, ttl); err == nil {
			return g // no queue keeps it from a free key
		}
		return got(t, first)
	})
}

// onReplicas lets acquire take the key k on every server, and then looks for it
// on a replica and after a restart.
func onReplicas(t *testing.T, acquire func(*testing.T, *redistest.Server, *modern.Backend) backend.Grant) {
	for _, binary := range redistest.Servers(t) {
		for name, cfg := range forms {
			t.Run(binary.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := binary.Start(t, redistest.Options{Persist: true})
				replica := s.StartReplica()
				c := replica.Pool().Get()
				defer c.Close()
				ears := redis.PubSubConn{Conn: c}
				if err := ears.Subscribe("written"); err != nil {
					t.Fatal(err)
				}
				ears.Receive() // that it has subscribed
				b := openOn(t, s.Pool(), cfg)
				g := acquire(t, s, b)
				s.Do("PUBLISH", "written", "") // the replica passes it on after what was written before
				if _, ok := ears.Receive().(redis.Message); !ok {
					t.Fatal("the replica is cut off")
				}
				s.Restart()
				for _, on := range []*redistest.Server{replica, s} {
					if value, err := redis.String(on.Do("GET", "k"), nil); err != nil || value != g.Token() {
						t.Errorf("%s: the key holds %q, %v", on.Addr(), value, err)
					}
				}
				free(t, g)
			})
		}
	}
}

// On every server, whichever process waits: the release writes the waiter's own
// token, and its message brings the number.
func TestReleaseGivesOnEveryServer(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		for name, cfg := range forms {
			t.Run(binary.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := binary.Start(t, redistest.Options{})
				var bs []*modern.Backend
				for range 2 {
					b := openOn(t, s.Pool(), cfg)
					bs = append(bs, b)
				}
				holder := try(t, bs[0], "k")
				p := stand(t, bs[1], "k")
				woken := make(chan struct{}, 9)
				if _, _, err := p.Await(bg, func() { woken <- struct{}{} }); err != nil {
					t.Fatal(err)
				}
				free(t, holder)
				<-woken
				g := got(t, p)
				value, err := redis.String(s.Do("GET", "k"), nil)
				if err != nil || value != g.Token() {
					t.Errorf("the key holds %q, %v", value, err)
				}
				if cfg.Fence && fenceOf(g) <= fenceOf(holder)+7 {
					t.Errorf("number %d follows %d", fenceOf(g), fenceOf(holder))
				}
				free(t, g)
			})
		}
	}
}

// A primary that became a replica keeps its subscribers, and hears what the new
// primary publishes. The release there counts no subscriber and passes the
// waiter over, so no message may say that the waiter has the key.
func TestWaiterThatIsPassedOverHearsOfNoGift(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := redistest.Real(t, redistest.Options{})
			primary := old.StartReplica()
			now := atomic.Pointer[redistest.Server]{}
			now.Store(old)
			b, err := modern.New(&redis.Pool{Dial: func() (redis.Conn, error) {
				return redis.Dial("tcp", now.Load().Addr())
			}}, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			dead := openOn(t, old.Pool(), cfg)
			holder := try(t, b, "k")
			stand(t, dead, "k") // so that p is second, and woken by messages only
			p := stand(t, b, "k")
			dead.Close()
			places, err := redis.Strings(old.Do("ZRANGE", "gsl:queue::{k}", 0, -1), nil)
			if err != nil || len(places) != 2 {
				t.Fatal(places, err)
			}
			old.AwaitReplica()
			primary.Do("SLAVEOF", "NO", "ONE")
			host, port, _ := strings.Cut(primary.Addr(), ":")
			old.Do("SLAVEOF", host, port)
			now.Store(primary)
			primary.AwaitReplica()

			c := openOn(t, primary.Pool(), cfg)
			woken := make(chan struct{}, 9)
			if _, _, err := p.Await(bg, func() { woken <- struct{}{} }); err != nil {
				t.Fatal(err)
			}
			if gone, err := c.ForceRelease(bg, "k", holder.Token()); !gone || err != nil {
				t.Fatal(gone, err)
			}
			next := try(t, c, "k")
			f := strings.SplitN(places[1], " ", 4)
			primary.Do("PUBLISH", "gsl:turn:"+f[0], fmt.Sprintf("0 %d %sk", len(f[3]), f[3]))
			<-woken
			for range 2 { // at the replica, then at the primary
				if g, err := p.Try(bg, ttl); err == nil {
					t.Errorf("%q has the key, and so has %q", g.Token(), next.Token())
				}
			}
			free(t, next)
		})
	}
}

// A key may have any byte, and the message has all of them.
func TestGiftOfAKeyWithAZeroByteIsTold(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			t.Parallel()
			s := binary.Start(t, redistest.Options{})
			subscribed := s.Pool().Get()
			defer subscribed.Close()
			b := openOn(t, s.Pool(), modern.Config{})
			const key = "a\x00b"
			holder := try(t, b, key)
			p := stand(t, b, key)
			places, err := redis.Strings(s.Do("ZRANGE", "gsl:queue::{"+key+"}", 0, -1), nil)
			if err != nil || len(places) != 1 {
				t.Fatal(places, err)
			}
			process, _, _ := strings.Cut(places[0], " ")
			if _, err := subscribed.Do("SUBSCRIBE", "gsl:turn:"+process); err != nil {
				t.Fatal(err)
			}
			free(t, holder)
			for {
				said, err := redis.Strings(subscribed.Receive())
				if err != nil {
					t.Fatal(err)
				}
				if said[2] == "" {
					continue
				}
				if !strings.HasSuffix(said[2], key) {
					t.Errorf("the message is %q", said[2])
				}
				break
			}
			granted(t, p)
		})
	}
}
