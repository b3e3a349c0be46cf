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
// from a version: Valkey calls itself Redis 7.2.4, and test servers claim what they lack.
type native struct {
	deletes atomic.Int32 // how compareAndDelete does it
	sets    atomic.Int32 // whether SET … IFEQ is there
	oldTime atomic.Bool  // scripts that called TIME must not write
	single  atomic.Bool  // a script may touch one key only: a node of a cluster
	loose   atomic.Bool  // no transactions; not forgotten, since trying may cost a connection

	// What waiters need, and the server or this user's rights on it do not give.
	wakeless atomic.Bool // it does not tell of changes
	deaf     atomic.Bool // nobody may subscribe
	alone    atomic.Bool // no line: its scripts are refused
}

const (
	untried   int32 = iota
	byDelex         // DELEX key IFEQ token: Redis
	byDelifeq       // DELIFEQ key token: Valkey
	byIfeq          // SET key … IFEQ token: both
	byScript
)

// forget makes everything be tried again: after a lost connection another server may be there.
func (n *native) forget() {
	n.deletes.Store(untried)
	n.sets.Store(untried)
	for _, b := range []*atomic.Bool{&n.oldTime, &n.single, &n.wakeless, &n.deaf, &n.alone} {
		b.Store(false)
	}
}

// compareAndDelete deletes key if it holds exactly token.
func (n *native) compareAndDelete(ctx context.Context, m *wire.Mux, key, token string) (bool, error) {
	for way := n.deletes.Load(); ; {
		var reply any
		var err error
		switch way {
		case untried, byDelex:
			reply, err = m.Do(ctx, "DELEX", key, "IFEQ", token)
		case byDelifeq:
			reply, err = m.Do(ctx, "DELIFEQ", key, token)
		default:
			reply, err = m.Eval(ctx, releaseScript, key, token)
		}
		switch {
		case notAString(err):
			return false, nil // certainly not ours
		case way != byScript && lacks(err):
			way = map[int32]int32{untried: byDelifeq, byDelex: byDelifeq, byDelifeq: byScript}[way]
			continue
		}
		if err == nil {
			n.deletes.Store(max(way, byDelex))
		}
		deleted, _ := reply.(int64)
		return deleted == 1, err
	}
}

// lacks reports that the server does not have the command, or not with these words, or not for this
// user: nothing was executed.
func lacks(err error) bool {
	return err != nil && (wire.IsUnknownCommand(err) || wire.IsNoPerm(err) || isSyntax(err))
}

func isSyntax(err error) bool { return refusedWith(err, "ERR syntax error") }

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

// refusesLine reports whether the server will not run the scripts of the line, now or later, and has
// done nothing.
func refusesLine(err error) bool {
	return err != nil && (wire.IsNoPerm(err) || wire.IsCluster(err) || wire.IsUnknownCommand(err))
}

// ifeq gives key another token and TTL if it holds exactly token.
func ifeq(key, token, next string, ms int64) wire.Command {
	return wire.Cmd("SET", key, next, "IFEQ", token, "PX", ms)
}

// mayIfeq reports whether SET … IFEQ is worth a try.
func (n *native) mayIfeq() bool { return n.sets.Load() != byScript }

// triedIfeq notes how a SET … IFEQ went and reports whether the server lacks it.
func (n *native) triedIfeq(err error) (lacking bool) {
	switch {
	case lacks(err):
		n.sets.Store(byScript)
		return true
	case err == nil:
		n.sets.Store(byIfeq)
	}
	return false
}
