package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/lock/backend"
)

var (
	// errOver: the session is over; nothing of it is left.
	errOver = errors.New("the session is over")

	// errNoReply is the cause of a call that Config.Timeout ended.
	errNoReply = errors.New("no reply within Config.Timeout")

	errClosed = errors.New("zookeeper: the Backend was closed")
)

// zkError is trouble with ZooKeeper. An Acquire waits while it may pass.
type zkError struct {
	text     string
	err      error
	passes   bool
	answered bool
}

func (e *zkError) Error() string { return e.text + ": " + e.err.Error() }
func (e *zkError) Unwrap() error { return e.err }

// Passing reports whether the trouble may pass.
func (e *zkError) Passing() bool { return e.passes }

// Answered reports whether a server itself said so.
func (e *zkError) Answered() bool { return e.answered }

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
	var known *zkError
	if errors.Is(err, errOver) || errors.Is(err, backend.ErrLost) || errors.As(err, &known) ||
		errors.Is(err, errClosed) {
		return err
	}
	e := &zkError{text: fmt.Sprintf("zookeeper: could not %s %q", what, name), err: err, passes: true,
		answered: isRefusal(err) && !errors.Is(err, zk.ErrNoServer)}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		e.text += fmt.Sprintf(
			" (give the user rights to create, read and delete below %s, on its children too)",
			b.path(name))
		e.passes = false
	case errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		e.text += " (check Config.User and Config.Password)"
		e.passes = false
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		e.text += fmt.Sprintf(" (%s or a node above it is ephemeral; choose another name)", b.path(name))
		e.passes = false
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, errNoReply):
		e.text += fmt.Sprintf(" (do the servers %q run, and are more than half of them connected?%s)",
			b.hosts.list(), b.hosts.lastTrouble())
		e.passes = !b.hosts.hopeless()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case e.answered:
		e.passes = errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, zk.ErrNoNode)
	}
	return e
}

// lost returns the error of a grant that no longer holds its lock.
func lost(name, why string) error {
	return fmt.Errorf("%w: zookeeper: %q: %s", backend.ErrLost, name, why)
}
