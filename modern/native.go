package modern

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

var errOddReply = errors.New("the server's reply does not have the shape that the command returns")

// native records which compare commands the server has itself. The Backend
// tries them and never concludes from a version: Valkey calls itself Redis
// 7.2.4, and test servers claim what they lack. Until they were tried, scripts
// do the work.
//
// deletes and sets outlive a lost connection, since a probe for each connection
// would hit a server that has just come back. If another server answers then
// and refuses a command, the script runs instead and the command is untried
// again.
type native struct {
	deletes atomic.Int32 // way of compareAndDelete
	sets    atomic.Int32 // way of a renewal of one key and of a hand-over
	wanted  atomic.Bool  // a script has once done what such a command might have done
	oldTime atomic.Bool  // scripts must not write after they called TIME
	single  atomic.Bool  // a script may touch only one key: the server is a node of a cluster

	// What the server, or this user's rights on it, deny to waiters.
	wakeless atomic.Bool // the server does not report changes
	alone    atomic.Bool // no queue: its scripts are refused
}

const (
	untried   int32 = iota
	byDelex         // DELEX key IFEQ token: Redis
	byDelifeq       // DELIFEQ key token: Valkey
	byIfeq          // SET key … IFEQ token: both
	byScript        // the server refused the commands
)

// forget makes everything except the compare commands untried again. After a
// lost connection another server may answer. A refusal of these is an error
// reply, which does not harm the connection.
func (n *native) forget() {
	for _, b := range []*atomic.Bool{&n.oldTime, &n.single, &n.wakeless, &n.alone} {
		b.Store(false)
	}
}

// compareAndDelete deletes key if it holds exactly token.
func (b *Backend) compareAndDelete(ctx context.Context, key, token string) (bool, error) {
	var reply any
	var err error
	way := b.native.deletes.Load()
	switch way {
	case byDelex:
		reply, err = b.user.Do(ctx, "DELEX", key, "IFEQ", token)
	case byDelifeq:
		reply, err = b.user.Do(ctx, "DELIFEQ", key, token)
	}
	if native := way == byDelex || way == byDelifeq; !native || distrust(&b.native.deletes, way, err) {
		if reply, err = b.user.Eval(ctx, releaseScript, key, token); err == nil {
			b.probe()
		}
	}
	if notAString(err) {
		return false, nil // another client's value, certainly
	}
	deleted, _ := reply.(int64)
	return deleted == 1, err
}

// distrust makes a known way untried again if its command's error gives reason
// to. It reports whether to run the script instead: the server refused the
// command and executed nothing.
func distrust(known *atomic.Int32, way int32, err error) (refused bool) {
	if err == nil {
		return false
	}
	if refused = refuses(err); refused || errors.Is(err, wire.ErrLost) {
		// The connection may have been lost because of this command, by a proxy
		// that came in between. Until a probe has shown that it was not, no
		// other connection is risked.
		known.CompareAndSwap(way, untried)
	}
	return refused
}

// refuses reports that the server, a proxy before it, or this user's rights
// refuse a command: nothing was executed. Their words differ. So every error
// that is not known to mean something else counts as a refusal.
func refuses(err error) bool {
	return refusedWith(err, "") && !wire.IsPassing(err) && !notAString(err)
}

// probe finds out in the background which compare commands the server has. It
// is called after a script has done what one of them might have done, so the
// server is up. The first call does nothing: a process that takes a lock, gives
// it back and ends sends no probe.
func (b *Backend) probe() {
	n := &b.native
	if n.deletes.Load() != untried && n.sets.Load() != untried || !n.wanted.Swap(true) {
		return
	}
	b.user.Prober().Start(wire.Cmd("GET", b.trial), b.tryNative)
}

// tryNative tries the compare commands on a key that no client writes, with a
// token that no client has. A server that has the commands changes nothing. The
// TTL is for a server that ignores IFEQ.
func (b *Backend) tryNative(t *wire.Trial) {
	n, token := &b.native, newToken()
	if n.deletes.Load() == untried {
		n.deletes.Store(tryDeletes(t, b.trial, token))
	}
	if n.sets.Load() == untried {
		switch t.Ask(nil, "SET", b.trial, token, "IFEQ", token, "PX", 1) {
		case wire.Has:
			n.sets.Store(byIfeq)
		case wire.Lacks:
			n.sets.Store(byScript)
		}
	}
}

func tryDeletes(t *wire.Trial, key any, token string) int32 {
	switch t.Ask(int64(0), "DELEX", key, "IFEQ", token) {
	case wire.Has:
		return byDelex
	case wire.Open:
		return untried
	}
	switch t.Ask(int64(0), "DELIFEQ", key, token) {
	case wire.Has:
		return byDelifeq
	case wire.Lacks:
		return byScript
	}
	return untried
}

// notAString reports that the key holds no string, so another program's value.
// DELEX has its own words for that.
func notAString(err error) bool {
	return wire.IsWrongType(err) || refusedWith(err, "ERR Key should be of string type")
}

func refusedWith(err error, words string) bool {
	if err == nil { // before refusal, which is allocated on the heap
		return false
	}
	var refusal redis.Error
	return errors.As(err, &refusal) && strings.HasPrefix(string(refusal), words)
}

// refusesLine reports whether the server, or a proxy before it, refuses the
// scripts of the queue, now and later, and has done nothing. The error code
// decides if the server gives one. Words decide only for errors of a script
// that ran, such as a counter that holds no number: that is no refusal of the
// queue.
func refusesLine(err error) bool {
	switch {
	case err == nil || wire.IsTransient(err):
		return false
	case wire.IsNoPerm(err), wire.IsCluster(err):
		return true
	}
	return refuses(err) && !wire.FromScript(err)
}

// ifeq gives key another token and TTL if it holds exactly token.
func ifeq(key, token, next string, ms int64) wire.Command {
	return wire.Cmd("SET", key, next, "IFEQ", token, "PX", ms)
}
