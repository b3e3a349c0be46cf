// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// list is List of the Backend.
func (b *engine) list(ctx context.Context, prefix string) ([]backend.Info, error) {
	var w *walk
	_, err := sessions.Retried(tooShort, func() (backend.Grant, error) {
		s, err := b.session(ctx, b.someTTL())
		if err == nil {
			w = &walk{s: s, prefix: prefix}
			err = w.all(ctx)
		}
		return nil, err
	})
	if err != nil {
		return nil, b.trouble("list the locks that begin with", prefix, err)
	}
	slices.SortFunc(w.found, func(a, b backend.Info) int { return strings.Compare(a.Key, b.Key) })
	if len(w.closed) > 0 {
		slices.Sort(w.closed)
		return w.found, &sessions.Trouble{Text: fmt.Sprintf(
			"zookeeper: the user may not read %s, nor what is below (such nodes: %d); give it the right to read, or list with a longer prefix",
			b.path(w.closed[0]), len(w.closed)), Err: zk.ErrNoAuth, Replied: true}
	}
	return w.found, nil
}

// walk goes through the nodes below the chroot, a level at a time.
type walk struct {
	s      *session
	prefix string

	mu     sync.Mutex
	found  []backend.Info
	closed []string // names of nodes whose children may not be read
	next   []string // names of the next level
	err    error
}

// mostWalked is how many nodes of one walk are read at once.
const mostWalked = 16

func (w *walk) all(ctx context.Context) error {
	for level := []string{""}; len(level) > 0 && w.err == nil; {
		w.next = nil
		var work sync.WaitGroup
		for i := range min(mostWalked, len(level)) {
			work.Go(func() {
				for at := i; at < len(level); at += mostWalked {
					w.visit(ctx, level[at])
				}
			})
		}
		work.Wait()
		level = w.next
	}
	return w.err
}

// visit reads one node. name is empty for the chroot, which is no lock.
func (w *walk) visit(ctx context.Context, name string) {
	path := w.s.b.path(name)
	if name == "" {
		path = max(w.s.b.cfg.Chroot, "/")
	}
	children, err := w.s.children(ctx, path)
	queue, _ := contenders(children)
	var info backend.Info
	if err == nil && name != "" && len(queue) > 0 && strings.HasPrefix(name, w.prefix) {
		info, err = w.s.describe(ctx, name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		w.closed = append(w.closed, name)
		return
	case err != nil:
		w.err = err
		return
	case info.Held != nil:
		w.found = append(w.found, info)
	}
	w.descend(name, children)
}

// descend adds a node's children to the next level. Nodes of clients have no
// children; the chroot has only names.
func (w *walk) descend(name string, children []string) {
	for _, child := range children {
		below := strings.TrimPrefix(name+"/"+child, "/")
		_, contends := sequence(child)
		switch {
		case contends && name != "", w.s.b.path(below) == "/zookeeper":
		case strings.HasPrefix(below, w.prefix), strings.HasPrefix(w.prefix, below+"/"):
			w.next = append(w.next, below)
		}
	}
}
