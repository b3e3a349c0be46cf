// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

var errClosed = errors.New("etcd: the Backend was closed")

// said reports whether err is etcd's own answer.
func said(err error) bool {
	var answer rpctypes.EtcdError
	return errors.As(err, &answer)
}

// code returns the gRPC code of an error.
func code(err error) codes.Code {
	var said rpctypes.EtcdError
	switch {
	case errors.As(err, &said):
		return said.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}

// refusedByEtcd reports whether etcd certainly did not carry the command out.
// A full database is no such error: see session.failed.
func refusedByEtcd(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	case codes.ResourceExhausted:
		return errors.Is(err, rpctypes.ErrTooManyRequests)
	}
	return false
}

// advice is what to do about answers with which nothing will pass.
var advice = map[string]string{
	rpctypes.ErrorDesc(rpctypes.ErrUserEmpty):        " (etcd wants a user and a password)",
	rpctypes.ErrorDesc(rpctypes.ErrAuthFailed):       " (check user and password)",
	rpctypes.ErrorDesc(rpctypes.ErrTooManyOps):       " (start etcd with --max-txn-ops of 100 or more)",
	rpctypes.ErrorDesc(rpctypes.ErrLeaseTTLTooLarge): " (choose a shorter TTL)",
	rpctypes.ErrorDesc(rpctypes.ErrRequestTooLarge):  " (choose a shorter name or Config.Note)",
}

// trouble adds what was tried, and what to do, to err.
func trouble(what, name string, err error) error {
	if sessions.Known(err) {
		return err
	}
	text, passes := fmt.Sprintf("etcd: could not %s %q", what, name), true
	switch code(err) {
	case codes.PermissionDenied:
		text += fmt.Sprintf(" (grant the user read and write rights on the keys that begin with %q)",
			name+"/")
		passes = false
	case codes.Unauthenticated, codes.FailedPrecondition:
		text += " (check user and password)"
		passes = errors.Is(err, rpctypes.ErrInvalidAuthToken)
	case codes.InvalidArgument, codes.OutOfRange:
		passes = errors.Is(err, rpctypes.ErrAuthOldRevision)
		text += advice[rpctypes.ErrorDesc(err)]
	case codes.Unimplemented:
		text += " (the server at this address is no etcd of version 3: check the address)"
		passes = false
	case codes.DeadlineExceeded:
		text += " (no reply in time: do the servers run, and are more than half of them connected?)"
	case codes.ResourceExhausted:
		if errors.Is(err, rpctypes.ErrNoSpace) {
			text += " (etcd's database is full: compact and defragment it, then disarm the alarm)"
		}
	}
	return &sessions.Trouble{Text: text, Err: err, Passes: passes, Replied: said(err)}
}

// lost returns the error of a grant that no longer holds its lock.
func lost(name, why string) error { return fmt.Errorf("%w: etcd: %q: %s", backend.ErrLost, name, why) }
