// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
)

// parents creates a lock's parent and what is missing above it. Nodes below the
// chroot are containers: the server deletes them when they have become empty.
func (s *session) parents(ctx context.Context, dir string) error {
	missing := []string{dir}
	for at := strings.LastIndex(dir, "/"); at > 0; at = strings.LastIndex(dir[:at], "/") {
		there, err := s.there(ctx, dir[:at])
		if err != nil {
			return err
		}
		if there {
			break
		}
		missing = append(missing, dir[:at])
	}
	for i := len(missing) - 1; i >= 0; i-- {
		err := s.parent(ctx, missing[i])
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return &sessions.Trouble{Text: fmt.Sprintf(
				"zookeeper: %s does not exist, and the user may not create it: create it by hand, or give the user the right to create nodes above it",
				missing[i]), Err: err, Replied: true}
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return err
		}
	}
	return nil
}

// there reports whether a node exists. Servers since 3.9 say that only to users
// who may read the node, and refuse only for nodes that exist.
func (s *session) there(ctx context.Context, path string) (bool, error) {
	there, err := ask(ctx, s, func() (bool, error) {
		there, _, err := s.conn.Exists(path)
		return there, err
	})
	if errors.Is(err, zk.ErrNoAuth) {
		return true, nil
	}
	return there, err
}

// parent creates one node. Servers before 3.5.1 have no containers.
func (s *session) parent(ctx context.Context, path string) error {
	create := func(container bool) error {
		_, err := ask(ctx, s, func() (string, error) {
			if container {
				return s.conn.CreateContainer(path, nil, zk.FlagContainer, s.b.acl())
			}
			return s.conn.Create(path, nil, zk.FlagPersistent, s.b.acl())
		})
		return err
	}
	if path == s.b.cfg.Chroot || strings.HasPrefix(s.b.cfg.Chroot, path+"/") {
		return create(false)
	}
	err := create(true)
	if err != nil && strings.Contains(err.Error(), "unknown error") {
		return create(false)
	}
	return err
}
