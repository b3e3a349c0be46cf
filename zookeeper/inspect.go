// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Info is what stands below a lock's node: the Detail of a [backend.Info].
type Info struct {
	Holder  string    // name of the holder's node; empty: nobody holds the lock
	Session int64     // session of the holder; 0: the node belongs to none, and stays until it is deleted
	Fence   int64     // zxid with which the holder's node was created
	Since   time.Time // when that node was created, by the clock of the leader at that time
	Note    string    // data of that node
	Waiting []string  // names of the waiting nodes, the next one first

	// Ignored are children that do not end in a number of ten digits. No client
	// of getsetlock waits for them. They make go-zookeeper's own Lock fail.
	Ignored []string

	// Kazoo are the holding and waiting nodes of kazoo. Such a client sees only
	// nodes of kazoo, and holds the lock alongside others, unless its Lock was
	// made with extra_lock_patterns=("-lock-",). Curator does not see them.
	Kazoo []string
}

// seen sorts the names below a lock's node.
func seen(children []string) (queue []contender, info *Info) {
	queue, others := contenders(children)
	info = &Info{Ignored: others}
	for i, c := range queue {
		if i == 0 {
			info.Holder = c.name
		} else {
			info.Waiting = append(info.Waiting, c.name)
		}
		if isKazoos(c.name) {
			info.Kazoo = append(info.Kazoo, c.name)
		}
	}
	slices.Sort(info.Ignored)
	return queue, info
}

// Describe looks at the nodes of a lock. Info.Detail is an [*Info], Info.Value
// the zxid with which the holder's node was created, and that node's name.
func (b *engine) Describe(ctx context.Context, name string) (backend.Info, error) {
	if address, ok := ctx.Value(opening{}).(string); ok {
		return backend.Info{}, b.reach(ctx, address)
	}
	if err := valid(name, LeastTTL); err != nil {
		return backend.Info{}, err
	}
	info, err := sessions.Retried(tooShort, func() (backend.Info, error) {
		s, err := b.session(ctx, b.someTTL())
		if err != nil {
			return backend.Info{}, err
		}
		return s.describe(ctx, name)
	})
	if err != nil {
		return backend.Info{}, b.trouble("look at", name, err)
	}
	return info, nil
}

// describe looks at a lock until its holder's node does not go away meanwhile.
func (s *session) describe(ctx context.Context, name string) (backend.Info, error) {
	for {
		children, err := s.children(ctx, s.b.path(name))
		if err != nil {
			return backend.Info{}, err
		}
		info, err := s.detail(ctx, name, children)
		if !errors.Is(err, zk.ErrNoNode) {
			return info, err
		}
	}
}

// detail reads the holder's node. The error is [zk.ErrNoNode] if that is gone.
func (s *session) detail(ctx context.Context, name string, children []string) (backend.Info, error) {
	_, detail := seen(children)
	info := backend.Info{Key: name, Detail: detail}
	if detail.Holder == "" {
		return info, nil
	}
	path := s.b.path(name) + "/" + detail.Holder
	stat, err := ask(ctx, s, func() (*zk.Stat, error) {
		data, stat, err := s.conn.Get(path)
		detail.Note = string(data)
		return stat, err
	})
	if err != nil {
		return backend.Info{}, err
	}
	detail.Session, detail.Fence, detail.Since = stat.EphemeralOwner, stat.Czxid, time.UnixMilli(stat.Ctime)
	info.Held = held(name, detail.Holder)
	info.Value = strconv.FormatInt(stat.Czxid, 10) + " " + detail.Holder
	return info, nil
}

// ForceRelease deletes the node that Describe found, unless it was
// deleted since. Its holder, if it is a client of getsetlock, learns of that at
// once.
func (b *engine) ForceRelease(ctx context.Context, name, value string) (bool, error) {
	number, child, _ := strings.Cut(value, " ")
	fence, err := strconv.ParseInt(number, 10, 64)
	if err != nil || child == "" || strings.Contains(child, "/") {
		return false, nil // no node of this lock had such a value
	}
	if err := valid(name, LeastTTL); err != nil {
		return false, err
	}
	deleted, err := sessions.Retried(tooShort, func() (bool, error) {
		s, err := b.session(ctx, b.someTTL())
		if err != nil {
			return false, err
		}
		return s.force(ctx, b.path(name)+"/"+child, fence)
	})
	if err != nil {
		return false, b.trouble("free", name, err)
	}
	return deleted, nil
}

// force deletes a node that was created with the zxid fence. ZooKeeper cannot
// compare that itself, but gives a name only once while the lock's node lives.
func (s *session) force(ctx context.Context, path string, fence int64) (bool, error) {
	_, err := ask(ctx, s, func() (struct{}, error) {
		there, stat, err := s.conn.Exists(path)
		if err == nil && (!there || stat.Czxid != fence) {
			err = zk.ErrNoNode
		}
		if err == nil {
			err = s.conn.Delete(path, -1)
		}
		return struct{}{}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}
