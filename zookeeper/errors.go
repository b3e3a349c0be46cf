// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

var (
	// errNoReply is the cause of a call that Config.Timeout ended.
	errNoReply = errors.New("no reply within Config.Timeout")

	errClosed = errors.New("zookeeper: the Backend was closed")
)

// refusals are the answers after which a command certainly changed nothing.
var refusals = []error{zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals,
	zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrSessionExpired,
	zk.ErrSessionMoved, zk.ErrBadArguments, zk.ErrAPIError, zk.ErrNoServer}

// isRefusal reports whether the server certainly did not carry a command out.
func isRefusal(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// trouble adds what was tried, and what to do, to err.
func (b *engine) trouble(what, name string, err error) error {
	if sessions.Known(err) || errors.Is(err, errClosed) {
		return err
	}
	e := &sessions.Trouble{Text: fmt.Sprintf("zookeeper: could not %s %q", what, name), Err: err,
		Passes: true, Replied: isRefusal(err) && !errors.Is(err, zk.ErrNoServer)}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		e.Text += fmt.Sprintf(
			" (give the user rights to create, read and delete below %s, on its children too)",
			b.path(name))
		e.Passes = false
	case errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		e.Text += " (check Config.User and Config.Password)"
		e.Passes = false
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		e.Text += fmt.Sprintf(" (%s or a node above it is ephemeral; choose another name)", b.path(name))
		e.Passes = false
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, errNoReply):
		e.Text += fmt.Sprintf(" (do the servers %q run, and are more than half of them connected?%s)",
			b.hosts.list(), b.hosts.lastTrouble())
		e.Passes = !b.hosts.hopeless()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case e.Replied:
		e.Passes = errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, zk.ErrNoNode)
	}
	return e
}

// lost returns the error of a grant that no longer holds its lock.
func lost(name, why string) error {
	return fmt.Errorf("%w: zookeeper: %q: %s", backend.ErrLost, name, why)
}
