package modern

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

var errOddReply = errors.New("the server's reply has another shape than the command's")

// native remembers which of its own compare commands the server has. They are tried, never concluded
// from a version: Valkey calls itself Redis 7.2.4, and test servers claim what they lack. Until they were
// tried, scripts do the same.
//
// deletes and sets outlive a lost connection, since a probe for each would be sent to a server that has
// just come back. Where another server is there then and refuses what this one had, the script is run
// and the command is untried again.
type native struct {
	deletes atomic.Int32 // how compareAndDelete does it
	sets    atomic.Int32 // how a renewal of one key and a hand-over do it
	wanted  atomic.Bool  // a script has done once what such a command might have done
	oldTime atomic.Bool  // scripts that called TIME must not write
	single  atomic.Bool  // a script may touch one key only: a node of a cluster

	// What waiters need, and the server or this user's rights on it do not give.
	wakeless atomic.Bool // it does not tell of changes
	alone    atomic.Bool // no line: its scripts are refused
}

const (
	untried   int32 = iota
	byDelex         // DELEX key IFEQ token: Redis
	byDelifeq       // DELIFEQ key token: Valkey
	byIfeq          // SET key … IFEQ token: both
	byScript        // the server refused the commands
)

// forget makes all but the compare commands be tried again: after a lost connection another server may
// be there. All these are refused by an error reply, after which the connection goes on.
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
		return false, nil // certainly not ours
	}
	deleted, _ := reply.(int64)
	return deleted == 1, err
}

// distrust makes a known way untried again whose command ended with err, if err gives reason to. It reports
// whether the script is to be run in its place: the server refused the command, and executed nothing.
func distrust(known *atomic.Int32, way int32, err error) (refused bool) {
	if err == nil {
		return false
	}
	if refused = refuses(err); refused || errors.Is(err, wire.ErrLost) {
		// A connection that was lost may have been so for this command, by a proxy that came between.
		// Until a probe has shown that it was not, no other connection is risked.
		known.CompareAndSwap(way, untried)
	}
	return refused
}

// refuses reports that the server, or a proxy before it, or this user's rights will not have a command:
// nothing was executed. Each has words of its own for that, so whatever is not known for something else
// is taken for it.
func refuses(err error) bool {
	return refusedWith(err, "") && !wire.IsPassing(err) && !notAString(err)
}

// probe finds out in the background which compare commands the server has. It is called after a script
// has done what one of them might have done: the server is up. The first call does nothing, so that a
// process that takes a lock, gives it back and ends sends no probe.
func (b *Backend) probe() {
	n := &b.native
	if n.deletes.Load() != untried && n.sets.Load() != untried || !n.wanted.Swap(true) {
		return
	}
	b.user.Prober().Start(wire.Cmd("GET", b.trial), b.tryNative)
}

// tryNative tries the compare commands on a key that nobody writes, with a token that nobody has: a
// server that has them changes nothing. The TTL is for a server that overlooks IFEQ.
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

// notAString recognises that something else than a lock stands on the key. DELEX has its own words.
func notAString(err error) bool {
	return wire.IsWrongType(err) || refusedWith(err, "ERR Key should be of string type")
}

func refusedWith(err error, words string) bool {
	if err == nil { // before refusal, whose place is on the heap
		return false
	}
	var refusal redis.Error
	return errors.As(err, &refusal) && strings.HasPrefix(string(refusal), words)
}

// refusesLine reports whether the server, or a proxy before it, will not run the scripts of the line, now or
// later, and has done nothing. Codes decide, where the server gives one. Words do only for what a script says
// while it runs, such as that the counter holds no number: that is no refusal of the line.
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
