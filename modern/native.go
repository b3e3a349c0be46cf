// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"errors"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

var errOddReply = errors.New("the server's reply does not have the shape that the command returns")

// native records what the server, or this user's rights on it, deny. The
// Backend tries and never concludes from a version: Valkey calls itself Redis
// 7.2.4, and test servers claim what they lack.
type native struct {
	oldTime  atomic.Bool // scripts must not write after they called TIME
	single   atomic.Bool // a script may touch only one key: the server is a node of a cluster
	wakeless atomic.Bool // the server does not report changes
	alone    atomic.Bool // no queue: its scripts are refused
}

// forget makes everything untried again. After a lost connection another server
// may answer.
func (n *native) forget() {
	for _, b := range []*atomic.Bool{&n.oldTime, &n.single, &n.wakeless, &n.alone} {
		b.Store(false)
	}
}

// refuses reports that the server, a proxy before it, or this user's rights
// refuse a command: nothing was executed. Their words differ. So every error
// that is not known to mean something else counts as a refusal.
func refuses(err error) bool {
	if err == nil { // before refusal, which is allocated on the heap
		return false
	}
	var refusal redis.Error
	return errors.As(err, &refusal) && !wire.IsPassing(err) && !wire.IsWrongType(err)
}

// refusesLine reports whether the server, or a proxy before it, refuses the
// scripts of the queue, now and later, and has done nothing. The error code
// decides if the server gives one. Words decide only for errors of a script
// that ran, such as a counter that holds no number: that is no refusal of the
// queue.
func refusesLine(err error) bool {
	switch {
	case err == nil || wire.IsTransient(err) || wire.IsRedirect(err):
		return false
	case wire.IsNoPerm(err), wire.IsCluster(err):
		return true
	}
	return refuses(err) && !wire.FromScript(err)
}
